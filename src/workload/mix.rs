//! What does an operation do? The proportions of a workload as a choice by one random number.

use crate::op::OpKind;

/// Chooses kinds by weight, in YCSB's order: READ, UPDATE, INSERT, SCAN, READ_MODIFY_WRITE.
#[derive(Debug, Clone, PartialEq)]
pub struct OpChooser {
    entries: Vec<(OpKind, f64)>,
}

impl OpChooser {
    /// Kinds with their relative weights; those without weight are left out. Weights need not sum
    /// to 1.
    ///
    /// # Panics
    /// If no weight is above 0.
    pub fn new(weights: &[(OpKind, f64)]) -> OpChooser {
        let positive: Vec<_> = weights.iter().copied().filter(|&(_, weight)| weight > 0.0).collect();
        assert!(!positive.is_empty(), "a mix has at least one kind of operation");
        let sum: f64 = positive.iter().map(|(_, weight)| weight).sum();
        OpChooser { entries: positive.into_iter().map(|(kind, weight)| (kind, weight / sum)).collect() }
    }

    /// The kind for `u` in [0, 1).
    #[inline]
    pub fn pick(&self, u: f64) -> OpKind {
        // Without a branch that depends on the draw: no processor can foresee it.
        let (mut rest, mut found, mut passed) = (u, false, 0);
        for &(_, share) in &self.entries {
            found |= rest < share;
            passed += usize::from(!found);
            rest -= share;
        }
        // Rounding can leave a last crumb of the range; YCSB would fail here.
        self.entries[passed.min(self.entries.len() - 1)].0
    }

    /// The share of this kind, from 0 to 1.
    pub fn share(&self, kind: OpKind) -> f64 {
        self.entries.iter().find(|entry| entry.0 == kind).map_or(0.0, |entry| entry.1)
    }

    /// Kinds that can occur and their shares, in YCSB's order.
    pub fn shares(&self) -> &[(OpKind, f64)] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_ycsbs() {
        let order = [OpKind::Read, OpKind::Update, OpKind::Insert, OpKind::Scan, OpKind::ReadModifyWrite];
        for line in include_str!("../../tests/golden/vectors/op_chooser_u.csv").lines().skip(2) {
            let row: Vec<&str> = line.split(',').collect();
            let weights = row[1].split(':').map(|weight| weight.parse::<f64>().unwrap());
            let weights: Vec<_> = order.into_iter().zip(weights).collect();
            let kind = OpChooser::new(&weights).pick(row[0].parse().unwrap());
            assert_eq!(kind.name().replace('_', ""), row[2], "{line}");
        }
    }

    #[test]
    fn shares_are_relative() {
        let chooser = OpChooser::new(&[(OpKind::Read, 3.0), (OpKind::Update, 0.0), (OpKind::Insert, 1.0)]);
        assert_eq!(chooser.share(OpKind::Insert), 0.25);
        assert_eq!(chooser.share(OpKind::Update), 0.0);
        assert_eq!(chooser.shares().len(), 2);
    }
}
