//! Data center and rack of the node, as Cassandra's snitches find them. Those of other nodes are told by
//! gossip, which each snitch feeds.
//!
//! | snitch | where they are |
//! |---|---|
//! | SimpleSnitch | `datacenter1`, `rack1` |
//! | GossipingPropertyFileSnitch | `dc`, `rack` in cassandra-rackdc.properties; else `dc1` and `rack1` |
//! | PropertyFileSnitch | the line of the node's address in cassandra-topology.properties, or its `default` |
//! | RackInferringSnitch | the second and the third octet of the address |
//!
//! Both files lie beside cassandra.yaml. With `prefer_local` in the first one, nodes of one data center meet
//! at their addresses in it.

use env::Env;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

const RACK_FILE: &str = "cassandra-rackdc.properties";
const TOPOLOGY_FILE: &str = "cassandra-topology.properties";

/// What the files say.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub data_center: Option<String>,
    pub rack: Option<String>,
    /// Whether nodes of one data center reach each other at their addresses in it.
    prefers_local: bool,
    /// Host and place of each line of cassandra-topology.properties.
    topology: Option<Vec<(String, String)>>,
}

impl Places {
    pub(super) fn read_files(&mut self, env: &Env, yaml: &Path) {
        let read = |name| env.fs.read_to_string(&yaml.with_file_name(name)).ok();
        for (key, value) in read(RACK_FILE).iter().flat_map(|text| properties(text)) {
            match key.as_str() {
                "dc" => self.data_center = Some(value),
                "rack" => self.rack = Some(value),
                "prefer_local" => self.prefers_local = value.eq_ignore_ascii_case("true"),
                _ => {}
            }
        }
        self.topology = read(TOPOLOGY_FILE).map(|text| properties(&text).collect());
    }

    /// `prefer_local`, where the snitch reads it.
    pub(super) fn prefers_local(&self, snitch: &str) -> bool {
        self.prefers_local && snitch == "GossipingPropertyFileSnitch"
    }

    /// Data center and rack.
    ///
    /// # Errors
    /// When the snitch's file does not say, or a ring would have them from a snitch that is not supported.
    pub(super) fn find(
        self,
        snitch: &str,
        address: IpAddr,
        is_in_ring: bool,
    ) -> Result<(String, String), String> {
        let simple = || ("datacenter1".to_owned(), "rack1".to_owned());
        match snitch {
            "SimpleSnitch" => Ok(simple()),
            "GossipingPropertyFileSnitch" => {
                let or = |found: Option<String>, other: &str| found.unwrap_or_else(|| other.to_owned());
                Ok((or(self.data_center, "dc1"), or(self.rack, "rack1")))
            }
            "RackInferringSnitch" => {
                let octet = |at: usize| match address {
                    IpAddr::V4(address) => address.octets().get(at).copied().unwrap_or_default(),
                    IpAddr::V6(address) => address.octets().get(at).copied().unwrap_or_default(),
                };
                Ok((octet(1).to_string(), octet(2).to_string()))
            }
            "PropertyFileSnitch" => in_topology(self.topology, address),
            other if is_in_ring => Err(format!(
                "endpoint_snitch: {other} is not supported, and a ring needs the places that it finds. With \
                 GossipingPropertyFileSnitch they can be written into {RACK_FILE}"
            )),
            _ => Ok(simple()),
        }
    }
}

/// What there is to say of a snitch that is not supported.
pub(super) fn warning(snitch: &str, data_center: &str, rack: &str) -> Option<String> {
    let is_known =
        ["SimpleSnitch", "GossipingPropertyFileSnitch", "RackInferringSnitch", "PropertyFileSnitch"]
            .contains(&snitch);
    (!is_known).then(|| {
        format!(
            "endpoint_snitch: {snitch} is not supported: the data center is {data_center}, the rack {rack}"
        )
    })
}

fn in_topology(lines: Option<Vec<(String, String)>>, address: IpAddr) -> Result<(String, String), String> {
    let lines = lines.ok_or_else(|| format!("Unable to read {TOPOLOGY_FILE}"))?;
    let is_own = |host: &str| {
        let host = host.replace('/', "");
        let with_port = || host.parse::<SocketAddr>().map(|found| found.ip());
        host.parse::<IpAddr>().or_else(|_| with_port()).is_ok_and(|found| found == address)
    };
    // The last line of several counts, as in a map.
    let find = |is_it: &dyn Fn(&str) -> bool| lines.iter().rev().find(|(host, _)| is_it(host));
    let line = find(&is_own).or_else(|| find(&|host| host == "default")).ok_or_else(|| {
        format!(
            "Snitch definitions at {TOPOLOGY_FILE} do not define a location for this node's broadcast address \
             /{address}, nor does it provides a default"
        )
    })?;
    let (data_center, rack) = line.1.split_once(':').unwrap_or(("default", "default"));
    let rack = rack.split(':').next().unwrap_or(rack);
    Ok((data_center.trim().to_owned(), rack.trim().to_owned()))
}

/// Keys and values of a properties file of Java, but for values that go on in the next line.
pub(super) fn properties(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    lines
        .map(|line| {
            let (mut key, mut value) = (String::new(), "");
            let mut chars = line.char_indices();
            while let Some((at, char)) = chars.next() {
                match char {
                    '\\' => key.extend(chars.next().map(|(_, escaped)| escaped)),
                    '=' | ':' | ' ' | '\t' => {
                        value = line.get(at..).unwrap_or_default().trim_start();
                        value = value.strip_prefix(['=', ':']).unwrap_or(value).trim_start();
                        break;
                    }
                    other => key.push(other),
                }
            }
            (key, value.to_owned())
        })
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(snitch: &str, file: Option<&str>, address: &str) -> Result<(String, String), String> {
        let topology = file.map(|text| properties(text).collect());
        Places { topology, ..Places::default() }.find(snitch, address.parse().unwrap(), true)
    }

    fn at(data_center: &str, rack: &str) -> Result<(String, String), String> {
        Ok((data_center.to_owned(), rack.to_owned()))
    }

    #[test]
    fn the_snitch_that_reads_prefer_local_honours_it() {
        let (env, yaml) = (Env::for_test(1), Path::new("/etc/cassandra.yaml"));
        env.fs.create_dir_all(Path::new("/etc")).unwrap();
        for (line, is_honoured) in [
            ("prefer_local=true", true),
            ("prefer_local = TRUE", true),
            ("prefer_local=yes", false),
            ("dc=a", false),
        ] {
            env.fs.write(&yaml.with_file_name(RACK_FILE), line.as_bytes()).unwrap();
            let mut places = Places::default();
            places.read_files(&env, yaml);
            assert_eq!(places.prefers_local("GossipingPropertyFileSnitch"), is_honoured, "{line}");
            assert!(!places.prefers_local("PropertyFileSnitch"));
        }
    }

    #[test]
    fn octets_are_places() {
        assert_eq!(place("RackInferringSnitch", None, "10.20.30.40"), at("20", "30"));
    }

    #[test]
    fn the_topology_has_a_line_of_the_node_or_a_default() {
        let file = "# Nodes\n192.168.1.100=DC1:RAC1\n192.168.2.200 = DC2 : RAC2 \n\
                    fe80\\:0\\:0\\:0\\:202\\:b3ff\\:fe1e\\:8329=DC3:RAC3\n127.0.0.9\\:7001=DC4:RAC4\n\
                    10.0.0.1=odd\n! or else\n";
        let of = |address| place("PropertyFileSnitch", Some(file), address);
        assert_eq!(of("192.168.1.100"), at("DC1", "RAC1"));
        assert_eq!(of("192.168.2.200"), at("DC2", "RAC2"));
        assert_eq!(of("fe80::202:b3ff:fe1e:8329"), at("DC3", "RAC3"));
        assert_eq!(of("127.0.0.9"), at("DC4", "RAC4"));
        assert_eq!(of("10.0.0.1"), at("default", "default"));
        let missing = of("10.0.0.2").unwrap_err();
        assert!(
            missing.contains("/10.0.0.2") && missing.contains("nor does it provides a default"),
            "{missing}"
        );
        let with_default = format!("{file}default=DC9:r9\n");
        assert_eq!(place("PropertyFileSnitch", Some(&with_default), "10.0.0.2"), at("DC9", "r9"));
        assert!(place("PropertyFileSnitch", None, "10.0.0.2").unwrap_err().contains("Unable to read"));
    }

    #[test]
    fn a_ring_does_not_guess() {
        let refused = place("Ec2Snitch", None, "10.0.0.1").unwrap_err();
        assert!(
            refused.contains("Ec2Snitch") && refused.contains("GossipingPropertyFileSnitch"),
            "{refused}"
        );
        let alone = Places::default().find("Ec2Snitch", "10.0.0.1".parse().unwrap(), false);
        assert_eq!(alone, at("datacenter1", "rack1"));
        assert!(warning("Ec2Snitch", "datacenter1", "rack1").unwrap().contains("Ec2Snitch"));
        assert_eq!(warning("PropertyFileSnitch", "DC1", "r1"), None);
    }
}
