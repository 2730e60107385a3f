//! Which requests meet: whether what one was answered by shares a replica with what another is answered by.
//!
//! A level says from how many replicas of each data center an answer comes at least. Two requests meet where
//! no choice of replicas for the one leaves room for the other: so LOCAL_QUORUM and LOCAL_QUORUM of one data
//! center do, EACH_QUORUM and any LOCAL_QUORUM do, QUORUM and LOCAL_QUORUM do not, unless the data centers
//! are small.

use std::collections::BTreeMap;

use env::random::Random;
use model::Consistency;
use model::schema::Replication;

/// The data centers of a ring.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Their names, nodes and replicas.
    pub datacenters: Vec<Datacenter>,
}

/// A data center of a ring. Its nodes follow those of the one before.
#[derive(Clone, Debug)]
pub struct Datacenter {
    pub name: &'static str,
    pub nodes: u8,
    pub replicas: u32,
}

/// From how many replicas of each data center an answer came at least: one of these.
type Choices = Vec<Vec<u32>>;

impl Layout {
    /// So many nodes and replicas in one data center.
    pub fn of_one(nodes: u8, replicas: u32) -> Layout {
        Layout { datacenters: vec![Datacenter { name: "datacenter1", nodes, replicas }] }
    }

    /// So many nodes and replicas in each of two data centers.
    pub fn of_two(nodes: [u8; 2], replicas: [u32; 2]) -> Layout {
        let of = |name, at: usize| Datacenter { name, nodes: nodes[at], replicas: replicas[at] };
        Layout { datacenters: vec![of("datacenter1", 0), of("datacenter2", 1)] }
    }

    /// Whether there is more than one data center.
    pub fn has_several(&self) -> bool {
        self.datacenters.len() > 1
    }

    /// Nodes in all.
    pub fn nodes(&self) -> u8 {
        self.datacenters.iter().map(|datacenter| datacenter.nodes).sum()
    }

    /// Whether each node has a replica of everything.
    pub fn has_all_everywhere(&self) -> bool {
        self.datacenters.iter().all(|datacenter| u32::from(datacenter.nodes) == datacenter.replicas)
    }

    /// The number of the data center of a node.
    pub fn datacenter_of(&self, node: u8) -> usize {
        let mut last = 0;
        let ends = self.datacenters.iter().map(|datacenter| {
            last += datacenter.nodes;
            last
        });
        ends.take_while(|end| *end < node).count()
    }

    /// The nodes of a data center.
    pub fn nodes_of(&self, datacenter: usize) -> Vec<u8> {
        (1..=self.nodes()).filter(|node| self.datacenter_of(*node) == datacenter).collect()
    }

    /// A level for a write. One replica is enough for a few.
    pub fn level_of_write(&self, random: &Random) -> Consistency {
        match random.below(6) {
            0 => Consistency::One,
            _ => self.level_of_read(random),
        }
    }

    /// A level for a read.
    pub fn level_of_read(&self, random: &Random) -> Consistency {
        match random.below(8) {
            0 => Consistency::All,
            1..=3 if self.has_several() => Consistency::LocalQuorum,
            4 | 5 if self.has_several() => Consistency::EachQuorum,
            _ => Consistency::Quorum,
        }
    }

    /// A level for an increment.
    pub fn level_of_count(&self, random: &Random) -> Consistency {
        match random.below(3) {
            0 => Consistency::One,
            1 if self.has_several() => Consistency::LocalQuorum,
            _ => Consistency::Quorum,
        }
    }

    /// How the keyspace is replicated.
    pub fn replication(&self) -> Replication {
        if !self.has_several() {
            return Replication::simple(self.datacenters[0].replicas);
        }
        let factor = |datacenter: &Datacenter| (datacenter.name.to_owned(), datacenter.replicas.to_string());
        Replication {
            class: "org.apache.cassandra.locator.NetworkTopologyStrategy".to_owned(),
            options: self.datacenters.iter().map(factor).collect(),
        }
    }

    /// The replicas that have answered a request at a level, which that node has coordinated.
    fn choices(&self, level: Consistency, node: u8) -> Choices {
        let replicas: Vec<u32> = self.datacenters.iter().map(|datacenter| datacenter.replicas).collect();
        let total: u32 = replicas.iter().sum();
        let quorum = |replicas: u32| replicas / 2 + 1;
        let own = self.datacenter_of(node);
        let local = |count: u32| {
            vec![(0..replicas.len()).map(|datacenter| if datacenter == own { count } else { 0 }).collect()]
        };
        match level {
            Consistency::All => vec![replicas],
            Consistency::EachQuorum => vec![replicas.into_iter().map(quorum).collect()],
            Consistency::LocalQuorum => local(quorum(replicas[own])),
            Consistency::Quorum => spread(&replicas, quorum(total)),
            Consistency::One => spread(&replicas, 1),
            level => panic!("nothing is known of {level:?}"),
        }
    }

    /// Whether a request at a level, coordinated by that node, meets every one at that other level.
    pub fn meet(&self, (one, of): (Consistency, u8), (other, by): (Consistency, u8)) -> bool {
        let (ours, theirs) = (self.choices(one, of), self.choices(other, by));
        let is_apart = |our: &Vec<u32>, their: &Vec<u32>| {
            let in_each = self.datacenters.iter().zip(our.iter().zip(their));
            in_each.into_iter().all(|(datacenter, (our, their))| our + their <= datacenter.replicas)
        };
        !ours.iter().any(|our| theirs.iter().any(|their| is_apart(our, their)))
    }
}

/// All ways to have `count` replicas among data centers.
fn spread(replicas: &[u32], count: u32) -> Choices {
    let Some((first, others)) = replicas.split_first() else {
        return if count == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let with = |here: u32| {
        let rests = spread(others, count - here);
        rests.into_iter().map(move |rest| std::iter::once(here).chain(rest).collect())
    };
    (0..=count.min(*first)).flat_map(with).collect()
}

/// What meets a read, looked up once for each level and data center.
pub struct Meetings<'a> {
    layout: &'a Layout,
    with: (Consistency, u8),
    known: BTreeMap<(u16, usize), bool>,
}

impl<'a> Meetings<'a> {
    pub fn of(layout: &'a Layout, level: Consistency, node: u8) -> Meetings<'a> {
        Meetings { layout, with: (level, node), known: BTreeMap::new() }
    }

    /// Whether a request at that level, which that node has coordinated, meets the read.
    pub fn has(&mut self, level: Consistency, node: u8) -> bool {
        let key = (level as u16, self.layout.datacenter_of(node));
        *self.known.entry(key).or_insert_with(|| self.layout.meet((level, node), self.with))
    }
}

#[test]
fn levels_meet_where_their_replicas_must_be_the_same() {
    use Consistency::{All, EachQuorum, LocalQuorum, One, Quorum};
    let (here, there) = (1, 5);
    let three = Layout::of_two([3, 2], [3, 2]);
    assert!(three.meet((LocalQuorum, here), (LocalQuorum, here)));
    assert!(!three.meet((LocalQuorum, here), (LocalQuorum, there)));
    assert!(three.meet((EachQuorum, there), (LocalQuorum, here)));
    assert!(!three.meet((Quorum, here), (LocalQuorum, here)));
    assert!(three.meet((Quorum, here), (Quorum, there)));
    assert!(three.meet((Quorum, here), (EachQuorum, there)));
    assert!(!three.meet((LocalQuorum, here), (Quorum, here)));
    assert!(three.meet((One, here), (All, there)));
    // Both replicas of a data center are a quorum of it, and three of four leave out one.
    assert!(Layout::of_two([2, 2], [2, 2]).meet((LocalQuorum, here), (Quorum, 4)));
    assert!(Layout::of_one(5, 3).meet((Quorum, here), (Quorum, there)));
    assert!(!Layout::of_one(5, 3).meet((One, here), (Quorum, there)));
}
