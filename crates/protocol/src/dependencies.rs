//! Dependencies in plans: groups of `team`, tasks of `cycle`.

use std::collections::BTreeMap;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

/// Returns the first name that depends on itself, directly or through others. Ignores dependencies on names that are not keys.
pub(crate) fn first_cyclic<'a>(needs: &BTreeMap<&'a str, Vec<&'a str>>) -> Option<&'a str> {
    let mut graph = DiGraph::<&str, ()>::default();
    let nodes: BTreeMap<_, _> = needs.keys().map(|name| (*name, graph.add_node(*name))).collect();
    for (name, needed) in needs {
        for needed in needed.iter().filter_map(|needed| nodes.get(needed)) {
            graph.update_edge(nodes[name], *needed, ());
        }
    }
    let components = kosaraju_scc(&graph).into_iter();
    let cyclic =
        components.filter(|members| members.len() > 1 || graph.contains_edge(members[0], members[0]));
    cyclic.flatten().map(|node| graph[node]).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_reaches_itself_is_cyclic_and_one_that_only_needs_it_is_not() {
        let first = |needs: &[(&'static str, &[&'static str])]| {
            first_cyclic(&needs.iter().map(|(name, needs)| (*name, needs.to_vec())).collect())
        };
        assert_eq!(first(&[("a", &["b"]), ("b", &[]), ("c", &["a", "b", "unknown"])]), None);
        assert_eq!(first(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]), Some("b"));
        assert_eq!(first(&[("a", &["b"]), ("b", &["b"])]), Some("b"));
    }
}
