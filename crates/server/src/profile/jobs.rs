//! Profiles that are taken again and again until somebody stops them, for `nodetool profileload -i`.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;

/// The tables of a job: a table, all of a keyspace, or all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// Its keyspace; all if there is none.
    pub keyspace: Option<String>,
    /// Its table; all of the keyspace if there is none.
    pub table: Option<String>,
}

/// The jobs of a node. Two of them have no table in common.
#[derive(Debug, Default)]
pub struct Jobs {
    /// And whether it is to end with its round.
    jobs: Mutex<BTreeMap<Job, bool>>,
}

impl Job {
    fn overlaps(&self, other: &Job) -> bool {
        let meet = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        meet(&self.keyspace, &other.keyspace) && meet(&self.table, &other.table)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_all = |name: &Option<String>| name.clone().unwrap_or_else(|| "*".to_owned());
        write!(f, "{}.{}", or_all(&self.keyspace), or_all(&self.table))
    }
}

impl Jobs {
    /// Adds a job. False when another one has a table in common with it.
    pub fn add(&self, job: &Job) -> bool {
        let mut jobs = self.jobs.lock();
        let is_free = !jobs.keys().any(|other| job.overlaps(other));
        if is_free {
            jobs.insert(job.clone(), false);
        }
        is_free
    }

    /// Has a job end with its round; of all tables, every job. False when there is none by this name.
    pub fn stop(&self, job: &Job) -> bool {
        let mut jobs = self.jobs.lock();
        if job.keyspace.is_none() && job.table.is_none() {
            jobs.values_mut().for_each(|is_stopped| *is_stopped = true);
            return true;
        }
        match jobs.get_mut(job) {
            Some(is_stopped) => !std::mem::replace(is_stopped, true),
            None => false,
        }
    }

    /// Ends a job that is to end. Whether it did.
    pub fn end_if_stopped(&self, job: &Job) -> bool {
        let mut jobs = self.jobs.lock();
        let is_stopped = jobs.get(job).copied().unwrap_or(true);
        if is_stopped {
            jobs.remove(job);
        }
        is_stopped
    }

    /// Ends a job.
    pub fn end(&self, job: &Job) {
        self.jobs.lock().remove(job);
    }

    /// All of them, those too that end with their round.
    pub fn all(&self) -> Vec<Job> {
        self.jobs.lock().keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(keyspace: &str, table: &str) -> Job {
        let named = |name: &str| Some(name.to_owned()).filter(|name| name != "*");
        Job { keyspace: named(keyspace), table: named(table) }
    }

    #[test]
    fn jobs_have_no_table_in_common() {
        let jobs = Jobs::default();
        assert!(jobs.add(&job("a", "t")) && jobs.add(&job("a", "u")) && jobs.add(&job("b", "*")));
        for other in [job("a", "t"), job("a", "*"), job("b", "t"), job("b", "*"), job("*", "*")] {
            assert!(!jobs.add(&other), "{other}");
        }
        let names: Vec<String> = jobs.all().iter().map(Job::to_string).collect();
        assert_eq!(names, ["a.t", "a.u", "b.*"]);
    }

    #[test]
    fn a_job_that_is_stopped_ends_with_its_round() {
        let (jobs, one, other) = (Jobs::default(), job("a", "t"), job("b", "t"));
        assert!(jobs.add(&one) && jobs.add(&other));
        assert!(!jobs.stop(&job("a", "*")));
        assert!(jobs.stop(&one) && !jobs.stop(&one));
        assert!(!jobs.add(&one), "its round is not over");
        assert!(jobs.end_if_stopped(&one) && !jobs.end_if_stopped(&other));
        assert!(jobs.add(&one));
        assert!(jobs.stop(&job("*", "*")));
        assert!(jobs.end_if_stopped(&one) && jobs.end_if_stopped(&other));
        assert_eq!(jobs.all(), []);
    }
}
