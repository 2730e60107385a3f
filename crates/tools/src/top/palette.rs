//! Colours, as many as the terminal has: from black to red, and characters that grow denser where there are
//! none.

use clap::ValueEnum;
use ratatui::style::{Color, Modifier, Style};

/// How many colours there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Colors {
    /// 24 bits
    Truecolor,
    /// The 256 of xterm
    #[value(name = "256")]
    Xterm256,
    /// Those of every terminal
    #[value(name = "16")]
    Ansi16,
    /// None
    Never,
}

/// Steps from black to red among the 256 colours.
const XTERM_REDS: [u8; 6] = [16, 52, 88, 124, 160, 196];
/// Characters that grow denser.
const DENSITIES: [char; 8] = [' ', ':', '-', '=', '+', '*', '#', '@'];
/// Steps from black to red among the 16 colours.
const ANSI_REDS: [(char, Color); 5] = [
    (' ', Color::Reset),
    ('\u{2591}', Color::Red),
    ('\u{2592}', Color::Red),
    ('\u{2593}', Color::Red),
    ('\u{2588}', Color::LightRed),
];

impl Colors {
    /// What the environment says that the terminal has.
    pub(super) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Colors {
        let is =
            |name: &str, what: &[&str]| variable(name).is_some_and(|v| what.iter().any(|w| v.contains(w)));
        if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            return Colors::Never;
        }
        let term = variable("TERM").unwrap_or_default();
        match () {
            () if term.is_empty() || term == "dumb" || term.starts_with("vt") => Colors::Never,
            () if is("COLORTERM", &["truecolor", "24bit"]) || term.contains("direct") => Colors::Truecolor,
            () if term.contains("256color") => Colors::Xterm256,
            () => Colors::Ansi16,
        }
    }

    /// A cell of the heat map: `part` of what the hottest one has, on a logarithmic scale. One read is not
    /// black.
    pub(super) fn heat(self, count: u64, max: u64) -> (char, Style) {
        let style = Style::new();
        let level = |steps: usize| level(count, max, steps);
        match self {
            Colors::Truecolor => {
                let red = [0, 40, 70, 100, 130, 155, 180, 205, 230, 255];
                (' ', style.bg(Color::Rgb(*red.get(level(red.len())).unwrap_or(&0), 0, 0)))
            }
            Colors::Xterm256 => {
                let red = XTERM_REDS.get(level(XTERM_REDS.len()));
                (' ', style.bg(Color::Indexed(*red.unwrap_or(&16))))
            }
            Colors::Ansi16 => {
                let (density, color) = ANSI_REDS.get(level(ANSI_REDS.len())).unwrap_or(&ANSI_REDS[0]);
                (*density, style.fg(*color))
            }
            Colors::Never => (*DENSITIES.get(level(DENSITIES.len())).unwrap_or(&' '), style),
        }
    }

    /// A cell of which nothing is known.
    pub(super) fn unknown(self) -> Style {
        self.colored(Style::new().fg(Color::DarkGray))
    }

    /// A cell that is selected, made of what it is otherwise.
    pub(super) fn selected(self, (symbol, style): (char, Style)) -> (char, Style) {
        match self {
            Colors::Never | Colors::Ansi16 => (symbol, style.add_modifier(Modifier::REVERSED)),
            Colors::Truecolor | Colors::Xterm256 => (':', style.fg(Color::White)),
        }
    }

    /// Titles of panes and columns.
    pub(super) fn title(self, has_focus: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if has_focus {
            style.add_modifier(Modifier::REVERSED)
        } else {
            style.add_modifier(Modifier::UNDERLINED)
        }
    }

    /// The line on which the keys act.
    pub(super) fn current(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Something is wrong.
    pub(super) fn alarm(self) -> Style {
        self.colored(Style::new().fg(Color::LightRed)).add_modifier(Modifier::BOLD)
    }

    /// What matters less.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn colored(self, style: Style) -> Style {
        if self == Colors::Never { Style::new() } else { style }
    }
}

/// Which of `steps` steps: 0 for nothing, else 1 up to the last.
fn level(count: u64, max: u64, steps: usize) -> usize {
    let top = steps.saturating_sub(1);
    if count == 0 || top == 0 {
        return 0;
    }
    let part = if max <= 1 { 1.0 } else { (count as f64).ln() / (max as f64).ln() };
    (1 + (part * (top - 1) as f64).round() as usize).min(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_how_many_colours() {
        let of = |set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            Colors::of_environment(value)
        };
        assert_eq!(of(&[("TERM", "xterm-256color")]), Colors::Xterm256);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), Colors::Truecolor);
        assert_eq!(of(&[("TERM", "linux")]), Colors::Ansi16);
        assert_eq!(of(&[("TERM", "screen"), ("NO_COLOR", "")]), Colors::Ansi16);
        for none in [&[][..], &[("TERM", "dumb")], &[("TERM", "xterm-256color"), ("NO_COLOR", "1")]] {
            assert_eq!(of(none), Colors::Never);
        }
    }

    #[test]
    fn heat_goes_from_black_to_red_in_all_steps() {
        for steps in [5, 6, 8, 10] {
            let levels: Vec<usize> = (0..40).map(|n| level((1 << n) >> 1, 1 << 38, steps)).collect();
            assert!(levels.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] <= pair[0] + 1), "{levels:?}");
            assert_eq!((levels[0], levels[1], levels[39]), (0, 1, steps - 1));
        }
        assert_eq!((level(1, 1, 6), level(9, 1, 6), level(1, 0, 1)), (5, 5, 0));
    }

    #[test]
    fn without_colours_characters_tell() {
        let row: String =
            [0, 1, 10, 100, 1_000, 10_000].map(|n| Colors::Never.heat(n, 10_000).0).iter().collect();
        assert_eq!(row, " :=+*@");
        for colors in [Colors::Never, Colors::Ansi16] {
            assert_eq!(colors.heat(5, 10).1.bg, None);
        }
        assert_eq!(Colors::Xterm256.heat(10, 10).1.bg, Some(Color::Indexed(196)));
        assert_eq!(Colors::Xterm256.heat(0, 10).1.bg, Some(Color::Indexed(16)));
    }
}
