//! `audit_logging_options` and `full_query_logging_options`: what the file says of the logs of requests.
//!
//! `logger` is a map, a list with one map, or the class alone, as releases of Cassandra have it. What Ilion
//! cannot do ends the start: an audit that its operator believes in and that is not there is worse than none.

use super::units::{ByteSize, OldUnit};
use super::values::{Setting, scalar};
use crate::audit::{AuditLogger, AuditOptions, LogOptions, QueryLogOptions, RollCycle};
use serde_norway::Value;
use std::path::PathBuf;

/// Largest queue that Cassandra's type takes.
const QUEUE_WEIGHT_MAX: u64 = (1 << 31) - 1;

/// What logs of requests are not given here.
const NO_ARCHIVE: &str = "Ilion runs no commands: a file is not changed any more when the next one is there, and can \
                          be fetched from the directory";

/// Sets an option of queue and files; whether it is one.
///
/// # Errors
/// What is wrong with the value.
pub(super) fn set_log(log: &mut LogOptions, name: &str, value: &Value) -> Result<bool, String> {
    let bytes = || ByteSize::parse(value, OldUnit::Bytes).map(|size| size.0);
    let positive = |bytes: u64| if bytes > 0 { Ok(bytes) } else { Err("it must be positive".to_owned()) };
    match name {
        "block" => log.block = bool::parse(value, OldUnit::None)?,
        "roll_cycle" => log.roll_cycle = RollCycle::parse(&scalar(value)?)?,
        "max_log_size" => log.max_log_size = positive(bytes()?)?,
        "max_queue_weight" => {
            log.max_queue_weight = positive(bytes()?)?;
            if log.max_queue_weight > QUEUE_WEIGHT_MAX {
                return Err(format!("it must be at most {QUEUE_WEIGHT_MAX}"));
            }
        }
        "archive_command" => {
            if !scalar(value)?.trim().is_empty() {
                return Err(format!("it is not supported: {NO_ARCHIVE}"));
            }
        }
        // They say how an archive command is run, and there is none.
        "allow_nodetool_archive_command" => drop(bool::parse(value, OldUnit::None)?),
        "max_archive_retries" => drop(u32::parse(value, OldUnit::None)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn set(options: &mut AuditOptions, name: &str, value: &Value) -> Result<(), String> {
    if set_log(&mut options.log, name, value)? {
        return Ok(());
    }
    let text = || scalar(value);
    let filter = &mut options.filter;
    match name {
        "enabled" => options.enabled = bool::parse(value, OldUnit::None)?,
        "logger" => options.logger = logger(value)?,
        "audit_logs_dir" => options.audit_logs_dir = Some(PathBuf::parse(value, OldUnit::None)?),
        "included_keyspaces" => filter.included_keyspaces = text()?,
        "excluded_keyspaces" => filter.excluded_keyspaces = text()?,
        "included_categories" => filter.included_categories = text()?.to_uppercase(),
        "excluded_categories" => filter.excluded_categories = text()?.to_uppercase(),
        "included_users" => filter.included_users = text()?,
        "excluded_users" => filter.excluded_users = text()?,
        _ => return Err("it is not a known option".to_owned()),
    }
    Ok(())
}

fn logger(value: &Value) -> Result<AuditLogger, String> {
    let map = match value {
        Value::Sequence(classes) => match classes.as_slice() {
            [class] => class,
            _ => return Err("it must be one class".to_owned()),
        },
        single => single,
    };
    let Value::Mapping(map) = map else { return AuditLogger::parse(&scalar(map)?) };
    if map.get("parameters").is_some_and(|parameters| !is_blank(parameters)) {
        return Err("Ilion's loggers take no parameters".to_owned());
    }
    match map.get("class_name").filter(|class| !class.is_null()) {
        Some(class) => AuditLogger::parse(&scalar(class)?),
        None => Ok(AuditLogger::default()),
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Sequence(maps) => maps.iter().all(super::is_blank),
        other => super::is_blank(other),
    }
}

impl Setting for AuditOptions {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let Value::Mapping(map) = value else { return Err("it must be a map of options".to_owned()) };
        let mut options = AuditOptions::default();
        for (name, value) in map {
            let name = scalar(name)?;
            if !value.is_null() {
                set(&mut options, &name, value).map_err(|reason| format!("{name}: {reason}"))?;
            }
        }
        options.filter.check()?;
        Ok(options)
    }

    fn print(&self) -> Option<String> {
        Some(format!("{{enabled: {}, logger: {}}}", self.enabled, self.logger.name()))
    }
}

impl Setting for QueryLogOptions {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let Value::Mapping(map) = value else { return Err("it must be a map of options".to_owned()) };
        let mut options = QueryLogOptions::default();
        for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
            let name = scalar(name)?;
            let set = match name.as_str() {
                // Nothing, as in Cassandra, is no directory.
                "log_dir" => scalar(value).map(|path| {
                    options.log_dir = Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
                    true
                }),
                _ => set_log(&mut options.log, &name, value),
            };
            match set {
                Ok(true) => {}
                Ok(false) => return Err(format!("{name}: it is not a known option")),
                Err(reason) => return Err(format!("{name}: {reason}")),
            }
        }
        Ok(options)
    }

    fn print(&self) -> Option<String> {
        let directory = self.log_dir.as_ref().map(|directory| directory.display().to_string());
        Some(format!("{{log_dir: {}}}", directory.unwrap_or_default()))
    }
}

/// Names and values of the options of the full query log.
pub(super) fn shown_queries(options: &QueryLogOptions) -> Vec<(&'static str, String)> {
    let directory = options.log_dir.as_ref().map(|directory| directory.display().to_string());
    let mut shown = shown_log(&options.log);
    shown.push(("log_dir", directory.unwrap_or_default()));
    shown
}

/// Names and values of the options of queue and files, as `system_views.settings` shows them.
pub(super) fn shown_log(log: &LogOptions) -> Vec<(&'static str, String)> {
    vec![
        ("allow_nodetool_archive_command", "false".to_owned()),
        ("archive_command", String::new()),
        ("block", log.block.to_string()),
        ("max_archive_retries", "10".to_owned()),
        ("max_log_size", log.max_log_size.to_string()),
        ("max_queue_weight", log.max_queue_weight.to_string()),
        ("roll_cycle", log.roll_cycle.word().to_owned()),
    ]
}

/// The same of the audit log.
pub(super) fn shown(options: &AuditOptions) -> Vec<(&'static str, String)> {
    let filter = &options.filter;
    let directory = options.audit_logs_dir.as_ref().map(|directory| directory.display().to_string());
    let mut shown = shown_log(&options.log);
    shown.extend([
        ("audit_logs_dir", directory.unwrap_or_default()),
        ("enabled", options.enabled.to_string()),
        ("excluded_categories", filter.excluded_categories.clone()),
        ("excluded_keyspaces", filter.excluded_keyspaces.clone()),
        ("excluded_users", filter.excluded_users.clone()),
        ("included_categories", filter.included_categories.clone()),
        ("included_keyspaces", filter.included_keyspaces.clone()),
        ("included_users", filter.included_users.clone()),
        ("logger", options.logger.name().to_owned()),
        ("logger.class_name", options.logger.name().to_owned()),
        ("logger.parameters", "{}".to_owned()),
    ]);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<AuditOptions, String> {
        AuditOptions::parse(&serde_norway::from_str(yaml).expect("YAML"), OldUnit::None)
    }

    #[test]
    fn options_are_read_as_cassandra_spells_them() {
        let options = parse(
            "{enabled: true, logger: {class_name: FileAuditLogger}, included_categories: 'query, dml', \
             excluded_users: cassandra, audit_logs_dir: /var/log/audit, roll_cycle: DAILY, block: false, \
             max_queue_weight: 1048576, max_log_size: 10GiB, archive_command: '', max_archive_retries: 3}",
        )
        .unwrap();
        assert!(options.enabled && !options.log.block);
        assert_eq!(options.logger, AuditLogger::File);
        assert_eq!(options.filter.included_categories, "QUERY, DML");
        assert_eq!(options.filter.excluded_keyspaces, "system,system_schema,system_virtual_schema");
        assert_eq!(options.audit_logs_dir, Some(PathBuf::from("/var/log/audit")));
        assert_eq!((options.log.max_queue_weight, options.log.max_log_size), (1 << 20, 10 << 30));
        assert_eq!(options.log.roll_cycle.word(), "DAILY");
    }

    #[test]
    fn a_logger_stands_alone_in_a_map_or_in_a_list() {
        for yaml in [
            "{logger: FileAuditLogger}",
            "{logger: org.apache.cassandra.audit.FileAuditLogger}",
            "{logger: {class_name: FileAuditLogger, parameters: {}}}",
            "{logger: [{class_name: FileAuditLogger}]}",
        ] {
            assert_eq!(parse(yaml).unwrap().logger, AuditLogger::File, "{yaml}");
        }
        assert_eq!(parse("{enabled: true}").unwrap().logger, AuditLogger::Bin);
    }

    #[test]
    fn the_full_query_log_has_a_directory_or_none() {
        let parse =
            |yaml: &str| QueryLogOptions::parse(&serde_norway::from_str(yaml).expect("YAML"), OldUnit::None);
        let options = parse("{log_dir: /fql, roll_cycle: MINUTELY, block: false}").unwrap();
        assert_eq!(options.log_dir, Some(PathBuf::from("/fql")));
        assert_eq!((options.log.roll_cycle.word(), options.log.block), ("MINUTELY", false));
        assert_eq!(parse("{log_dir: ''}").unwrap(), QueryLogOptions::default());
        assert!(parse("{path: /fql}").unwrap_err().contains("path"));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (yaml, words) in [
            ("[enabled]", &["map"][..]),
            ("{logger: com.acme.Logger}", &["logger", "com.acme.Logger", "BinAuditLogger"]),
            ("{logger: {parameters: {a: b}}}", &["logger", "parameters"]),
            ("{archive_command: /bin/move %path}", &["archive_command", "no commands"]),
            ("{roll_cycle: often}", &["roll_cycle", "often", "HOURLY"]),
            ("{included_categories: DLM}", &["DLM"]),
            ("{exluded_users: bob}", &["exluded_users", "not a known"]),
            ("{max_queue_weight: 0}", &["max_queue_weight", "positive"]),
        ] {
            let error = parse(yaml).expect_err(yaml);
            assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
        }
    }
}
