//! Does something grow? The slope of a series, by Theil and Sen: the median of the slopes between all pairs
//! of its points. One stall moves few of the pairs, where it would tilt a line fitted by squares.

/// The slope of these points (x, y); 0 of fewer than two. The pairs grow with the square of the points.
pub fn theil_sen(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (position, one) in points.iter().enumerate() {
        let later = points[position + 1..].iter().filter(|other| other.0 != one.0);
        slopes.extend(later.map(|other| (other.1 - one.1) / (other.0 - one.0)));
    }
    let middle = slopes.len() / 2;
    if slopes.is_empty() { 0.0 } else { *slopes.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_and_one_stall_does_not_tilt_it() {
        let mut points: Vec<(f64, f64)> = (0..20).map(|x| (f64::from(x), 3.0 - 0.5 * f64::from(x))).collect();
        assert_eq!(theil_sen(&points), -0.5);
        points[18].1 = 1e9;
        assert_eq!(theil_sen(&points), -0.5);
    }

    #[test]
    fn points_may_be_uneven_few_or_at_one_place() {
        assert_eq!(theil_sen(&[(0.0, 1.0), (10.0, 21.0), (11.0, 23.0)]), 2.0);
        assert_eq!(theil_sen(&[(1.0, 5.0)]), 0.0);
        assert_eq!(theil_sen(&[(1.0, 5.0), (1.0, 9.0)]), 0.0);
        assert_eq!(theil_sen(&[]), 0.0);
    }
}
