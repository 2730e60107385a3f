//! `mask_inner` and `mask_outer`.

/// Replaces characters of a text with `padding`: those inside the first `begin` and the last `end` ones, or
/// (for `outer`) those ones themselves. A negative number counts as none.
pub(super) fn mask(text: &str, begin: i32, end: i32, padding: char, outer: bool) -> String {
    let units = text.chars().count();
    let begin = usize::try_from(begin).unwrap_or(0);
    let end = usize::try_from(end).unwrap_or(0);
    text.chars()
        .enumerate()
        .map(|(i, c)| {
            let is_inside = i >= begin && i < units.saturating_sub(end);
            if is_inside != outer { padding } else { c }
        })
        .collect()
}
