//! A scrape taken apart: families with their type, samples with their labels.

use std::collections::{BTreeMap, BTreeSet};

/// One metric.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) kind: String,
    /// Of each sample, `le` aside.
    pub(super) labels: Vec<BTreeMap<String, String>>,
}

impl Family {
    /// The names of all labels that any sample has.
    pub(super) fn label_names(&self) -> BTreeSet<&str> {
        self.labels.iter().flat_map(|labels| labels.keys().map(String::as_str)).collect()
    }
}

/// A page of `/metrics`.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    pub(super) text: String,
    pub(super) families: BTreeMap<String, Family>,
}

impl Scrape {
    /// Takes a page apart. Panics on any other text.
    pub(super) fn parse(text: &str) -> Scrape {
        let mut scrape = Scrape { text: text.to_owned(), families: BTreeMap::new() };
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, _help) = rest.split_once(' ').expect("a help text");
                assert!(scrape.families.insert(name.to_owned(), Family::default()).is_none(), "{name} is there twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                scrape.families.get_mut(name).expect("help comes first").kind = kind.to_owned();
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let labels = labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once('='));
                let labels = labels.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()));
                let labels = labels.filter(|(name, _)| name != "le").collect();
                let family = scrape.family_mut(name).unwrap_or_else(|| panic!("{line}: a sample of no family"));
                family.labels.push(labels);
            }
        }
        scrape
    }

    /// The family that has a series of this name: a histogram has three kinds of them.
    pub(super) fn family(&self, series: &str) -> Option<&Family> {
        self.families.get(&self.family_name(series)?)
    }

    fn family_mut(&mut self, series: &str) -> Option<&mut Family> {
        let name = self.family_name(series)?;
        self.families.get_mut(&name)
    }

    fn family_name(&self, series: &str) -> Option<String> {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| series.strip_suffix(suffix));
        let of_histogram = of_histogram.filter(|name| self.families.get(*name).is_some_and(|f| f.kind == "histogram"));
        let is_plain = self.families.get(series).is_some_and(|family| family.kind != "histogram");
        of_histogram.or_else(|| is_plain.then_some(series)).map(str::to_owned)
    }
}
