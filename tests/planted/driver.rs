//! Runs seeds with the fault that `VOTE_STATUS_PLANTED` names, up to the first failure unless `PLANTED_GOES_ON` is set. `run`,
//! beside this file, puts the driver into its copy of the simulation.

use super::script::{case, run};

fn seeds_of(name: &str) -> Vec<u64> {
    let text = std::env::var(name).unwrap_or_default();
    text.split(',').filter(|seed| !seed.is_empty()).map(|seed| seed.parse().expect("a seed")).collect()
}

#[test]
fn seeds() {
    let among = seeds_of("PLANTED_SEEDS");
    let (left_out, goes_on) = (seeds_of("PLANTED_LEFT_OUT"), std::env::var("PLANTED_GOES_ON").is_ok());
    for seed in (among[0]..among[1]).filter(|seed| !left_out.contains(seed)) {
        println!("\nseed {seed}");
        if let Err(finding) = run(&case(seed)) {
            println!("\nfound {seed} operation {}: {}", finding.at, finding.what.replace('\n', " "));
            if !goes_on {
                return;
            }
        }
    }
    println!("\nend");
}
