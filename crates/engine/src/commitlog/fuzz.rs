//! Entry points for fuzzing.

use super::replay::Segments;
use env::Env;
use std::path::Path;

/// A commit log segment, as a replay finds it. Damage is an error or skipped, as the first byte says.
pub fn fuzz_commit_log(bytes: &[u8]) {
    let env = Env::for_test(1);
    let directory = Path::new("/log");
    let Some((settings, segment)) = bytes.split_first() else { return };
    let written = env
        .fs
        .create_dir_all(directory)
        .and_then(|()| env.fs.write(&directory.join("CommitLog-7-1.log"), segment));
    if written.is_err() {
        return;
    }
    if let Ok(mut segments) = Segments::list(&env, directory, 1 << 20) {
        let ignores_damage = settings & 1 == 1;
        let _ = segments.replay(ignores_damage, |_| Ok(()));
    }
}
