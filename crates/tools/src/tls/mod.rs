//! `ilion tls DIR`: a small certificate authority, a node's certificate and a client's, to try TLS out.
//!
//! ```text
//! DIR/ca.crt  ca.key            signs the others; nodes and clients trust ca.crt
//! DIR/node.pem                  the node's key and certificate, as PEMBasedSslContextFactory reads them
//! DIR/client.crt  client.key    what a client shows where require_client_auth asks for it
//! ```
//!
//! Keys are P-256, and readable by nobody else. What is there already is not written over. It prints the
//! lines that a node, cqlsh and three drivers need.
//!
//! Exit status: 0 when everything was made, 1 when something could not be.

mod lines;
mod pem;

use crate::console;
use clap::Args;
use env::Env;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustix::fs::Mode;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Names under which a node on this machine is reached.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const SECONDS_A_DAY: i64 = 86_400;

/// Arguments of `ilion tls`.
#[derive(Debug, Args)]
pub struct TlsArgs {
    /// Where the files go
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Name or address of the node, as often as it has some [default: localhost, 127.0.0.1, ::1]
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Name of the client, in its certificate
    #[arg(long, value_name = "NAME", default_value = "client")]
    client: String,
    /// SPIFFE identity of the client, as in spiffe://example.org/app
    #[arg(long, value_name = "URI")]
    spiffe: Option<String>,
    /// Days for which the certificates are valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

/// Runs it; what it returns is the exit status.
pub fn run(args: &TlsArgs) -> u8 {
    // What is made here is nobody else's to read.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    match make(&Env::real(), args) {
        Ok(text) => {
            let mut out = std::io::stdout().lock();
            // A closed pipe is no failure: the files are there.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            0
        }
        Err(message) => {
            console::complain(&format!("ilion tls: {message}\n"));
            1
        }
    }
}

fn make(env: &Env, args: &TlsArgs) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    env.fs.create_dir_all(&args.dir).map_err(failed)?;
    let dir = env.fs.canonical(&args.dir).map_err(failed)?;
    for name in ["ca.crt", "ca.key", "node.pem", "client.crt", "client.key"] {
        let path = dir.join(name);
        if env.fs.exists(&path).map_err(failed)? {
            return Err(format!(
                "{} is there already and is left as it is; name another directory",
                path.display()
            ));
        }
    }
    let given: Vec<&str> = args.hosts.iter().map(String::as_str).collect();
    let hosts = if given.is_empty() { HOSTS.to_vec() } else { given };
    let made = Made::new(args, &hosts, env.now_seconds()).map_err(|error| error.to_string())?;
    let write = |name: &str, text: String| write(env, &dir, name, &text);
    write("ca.key", pem::section("PRIVATE KEY", &made.ca.1.serialize_der()))?;
    write("ca.crt", pem::section("CERTIFICATE", made.ca.0.der()))?;
    let node = pem::section("PRIVATE KEY", &made.node.1.serialize_der());
    write("node.pem", node + &pem::section("CERTIFICATE", made.node.0.der()))?;
    write("client.key", pem::section("PRIVATE KEY", &made.client.1.serialize_der()))?;
    write("client.crt", pem::section("CERTIFICATE", made.client.0.der()))?;
    Ok(lines::all(&dir, hosts.first().copied().unwrap_or("localhost")))
}

fn write(env: &Env, dir: &Path, name: &str, text: &str) -> Result<(), String> {
    env.fs.write(&dir.join(name), text.as_bytes()).map_err(|error| error.to_string())
}

/// Certificates with their keys.
struct Made {
    ca: (Certificate, KeyPair),
    node: (Certificate, KeyPair),
    client: (Certificate, KeyPair),
}

impl Made {
    fn new(args: &TlsArgs, hosts: &[&str], now_s: i64) -> Result<Made, rcgen::Error> {
        let params = |name: &str, alternatives: Vec<SanType>| {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
            params.subject_alt_names = alternatives;
            // Clocks that are a little behind accept it, too.
            params.not_before = date(now_s - SECONDS_A_DAY);
            params.not_after = date(now_s + SECONDS_A_DAY * i64::from(args.days));
            params.use_authority_key_identifier_extension = true;
            params
        };
        let ca_key = KeyPair::generate()?;
        let mut ca_params = params("Ilion trial CA", Vec::new());
        ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca_params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = ca_params.self_signed(&ca_key)?;
        let issuer = Issuer::from_params(&ca_params, &ca_key);
        let signed = |mut params: CertificateParams, usages: &[ExtendedKeyUsagePurpose]| {
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = usages.to_vec();
            let key = KeyPair::generate()?;
            params.signed_by(&key, &issuer).map(|certificate| (certificate, key))
        };
        let names = hosts.iter().map(|host| match host.parse::<IpAddr>() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) => Ia5String::try_from(*host).map(SanType::DnsName),
        });
        let name = hosts.first().copied().unwrap_or("node");
        let node = params(name, names.collect::<Result<_, _>>()?);
        // To other nodes it shows the same one where it connects to them.
        let node = signed(node, &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth])?;
        let spiffe = args.spiffe.iter().map(|uri| Ia5String::try_from(uri.as_str()).map(SanType::URI));
        let client = params(&args.client, spiffe.collect::<Result<_, _>>()?);
        let client = signed(client, &[ExtendedKeyUsagePurpose::ClientAuth])?;
        drop(issuer);
        Ok(Made { ca: (ca, ca_key), node, client })
    }
}

/// The beginning of the day, in the type of time that rcgen wants.
fn date(seconds: i64) -> time::OffsetDateTime {
    let (year, month, day) = civil(seconds.div_euclid(SECONDS_A_DAY));
    date_time_ymd(year, month, day)
}

/// Year, month and day of a day since 1970, by the Gregorian calendar with years that begin in March.
fn civil(day: i64) -> (i32, u8, u8) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year as i32, month as u8, of_month as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &str) -> TlsArgs {
        TlsArgs {
            dir: dir.into(),
            hosts: vec!["db.example.org".to_owned(), "10.0.0.1".to_owned()],
            client: "app".to_owned(),
            spiffe: Some("spiffe://example.org/app".to_owned()),
            days: 30,
        }
    }

    #[test]
    fn days_become_dates() {
        for (day, date) in
            [(0, (1970, 1, 1)), (19_782, (2024, 2, 29)), (20_089, (2025, 1, 1)), (-1, (1969, 12, 31))]
        {
            assert_eq!(civil(day), date, "{day}");
        }
    }

    #[test]
    fn everything_is_made_once_and_told() {
        let env = Env::for_test(1);
        let text = make(&env, &args("/tls")).unwrap();
        for words in
            ["client_encryption_options:", "/tls/node.pem", "[ssl]", "ssl_context", "gocql", "truststore"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let node = env.fs.read_to_string("/tls/node.pem".as_ref()).unwrap();
        assert!(
            node.starts_with("-----BEGIN PRIVATE KEY-----\n")
                && node.ends_with("-----END CERTIFICATE-----\n")
        );
        let again = make(&env, &args("/tls")).unwrap_err();
        assert!(again.contains("/tls/ca.crt") && again.contains("already"), "{again}");
        assert_eq!(env.fs.read_to_string("/tls/node.pem".as_ref()).unwrap(), node);
    }
}
