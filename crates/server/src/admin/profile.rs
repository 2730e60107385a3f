//! The route that samples the most active partitions.

use super::handlers::Api;
use super::{ApiError, Json};
use crate::node::Node;
use crate::profile::Job;
use crate::storage::{self, StorageError};
use axum::extract::State;
use axum::http::StatusCode;
use model::TableSchema;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tools::api::{JOB_REFUSED, Profile, ProfileJob, SamplerResult, ScheduledProfile};
use tools::nodetool::profile_text;

/// Partitions that a sampler keeps of a table at most.
const CAPACITY_MAX: u64 = 65_536;
/// The longest profile, in milliseconds: a day.
const DURATION_MAX: u64 = 86_400_000;

/// Samples until the duration is over. A caller who hangs up ends it.
pub(super) async fn profile(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<Profile>,
) -> Api<Vec<SamplerResult>> {
    validate(&wanted)?;
    sampled(&node, &wanted).await.map(axum::Json)
}

fn validate(wanted: &Profile) -> Result<(), ApiError> {
    if !(1..=DURATION_MAX).contains(&wanted.duration_millis) {
        let words = format!("a profile takes 1 to {DURATION_MAX} ms, not {}", wanted.duration_millis);
        return Err(ApiError::invalid(words));
    }
    if wanted.count > wanted.capacity || !(1..=CAPACITY_MAX).contains(&wanted.capacity) {
        let words = format!("a sampler keeps 1 to {CAPACITY_MAX} partitions, and tells of no more");
        return Err(ApiError::invalid(words));
    }
    Ok(())
}

async fn sampled(node: &Node, wanted: &Profile) -> Result<Vec<SamplerResult>, ApiError> {
    let tables = tables(node, wanted)?;
    let (capacity, count) = (wanted.capacity as usize, wanted.count as usize);
    let Some(running) = node.state.metrics.profiler.begin(tables, capacity, count) else {
        return Err(ApiError::new(StatusCode::CONFLICT, "conflict", "Sampling already in progress"));
    };
    node.state.env.tasks.sleep(Duration::from_millis(wanted.duration_millis)).await;
    Ok(running.results(&wanted.samplers, storage::show_key))
}

/// The profiles that are taken again and again.
pub(super) async fn jobs(State(node): State<Arc<Node>>) -> axum::Json<Vec<ProfileJob>> {
    let jobs = node.state.metrics.profiler.jobs.all().into_iter();
    axum::Json(jobs.map(|Job { keyspace, table }| ProfileJob { keyspace, table }).collect())
}

/// Has a profile taken again and again.
pub(super) async fn start_job(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<ScheduledProfile>,
) -> Result<StatusCode, ApiError> {
    let ScheduledProfile { profile, interval_millis } = wanted;
    validate(&profile)?;
    if !(profile.duration_millis..=DURATION_MAX).contains(&interval_millis) {
        let words = format!("a profile comes again after its duration and within {DURATION_MAX} ms");
        return Err(ApiError::invalid(words));
    }
    tables(&node, &profile)?;
    let job = Job { keyspace: profile.keyspace.clone(), table: profile.table.clone() };
    if !node.state.metrics.profiler.jobs.add(&job) {
        return Err(ApiError::new(StatusCode::CONFLICT, "refused", JOB_REFUSED));
    }
    tracing::info!(%job, interval_millis, "the most active partitions are sampled again and again");
    tokio::spawn(repeat(Arc::downgrade(&node), job, profile, Duration::from_millis(interval_millis)));
    Ok(StatusCode::NO_CONTENT)
}

/// Has a job end with its round.
pub(super) async fn stop_job(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<ProfileJob>,
) -> Result<StatusCode, ApiError> {
    let job = Job { keyspace: wanted.keyspace, table: wanted.table };
    match node.state.metrics.profiler.jobs.stop(&job) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::new(StatusCode::CONFLICT, "refused", JOB_REFUSED)),
    }
}

/// Takes a profile every `interval` and logs it, until the job is stopped or the node is gone.
async fn repeat(node: Weak<Node>, job: Job, profile: Profile, interval: Duration) {
    let rest = interval.saturating_sub(Duration::from_millis(profile.duration_millis));
    while let Some(node) = node.upgrade() {
        let jobs = &node.state.metrics.profiler.jobs;
        match sampled(&node, &profile).await {
            Ok(found) => tracing::info!(%job, "sampled\n{}", profile_text(&found)),
            Err(error) if error.status == StatusCode::CONFLICT => {
                tracing::info!(%job, "nothing is sampled: another profile of some of the tables runs");
            }
            Err(error) => {
                tracing::warn!(%job, error = error.message, "the most active partitions are sampled no more");
                return jobs.end(&job);
            }
        }
        if jobs.end_if_stopped(&job) {
            return tracing::info!(%job, "sampling was stopped");
        }
        let tasks = node.state.env.tasks.clone();
        drop(node);
        tasks.sleep(rest).await;
    }
}

fn tables(node: &Node, wanted: &Profile) -> Result<Vec<Arc<TableSchema>>, ApiError> {
    let schema = node.state.schema();
    let unknown = || {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "*".to_owned());
        StorageError::NoStore { keyspace: name(&wanted.keyspace), table: name(&wanted.table) }
    };
    let keyspaces = schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual);
    let keyspaces = keyspaces.filter(|found| wanted.keyspace.as_ref().is_none_or(|name| found.name == *name));
    let all = keyspaces.flat_map(|keyspace| keyspace.stores());
    let tables: Vec<_> =
        all.filter(|found| wanted.table.as_ref().is_none_or(|name| found.name == *name)).cloned().collect();
    match tables.is_empty() && (wanted.keyspace.is_some() || wanted.table.is_some()) {
        true => Err(unknown().into()),
        false => Ok(tables),
    }
}
