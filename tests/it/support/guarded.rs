//! A user whose password has every awkward character, and refusals, none of which may repeat it.

use ycsb_trace::driver::{Driver, Preparation, Target, TargetError};

use super::{open, refusal, table, target, with};

/// Must give [`PASSWORD`].
pub const GUARDED: &str = "guarded";
pub const PASSWORD: &str = "p@ss:w/o?r#d %41'\"\\é";

/// The password as a URL takes it.
pub fn escaped() -> String {
    PASSWORD.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Nothing of the password is in the message, not even a part between its odd characters.
#[track_caller]
fn keeps_the_secret(error: &TargetError) -> String {
    let message = format!("{error} {error:?}");
    for part in ["p@ss", "w/o", "?r#d", "#d %41", "'\"\\é", "ss:w", "s3cret"] {
        assert!(!message.contains(part), "{part:?} of the password is in: {message}");
    }
    error.to_string()
}

/// With each of these settings on top of `base`, the database refuses us in these words.
pub async fn assert_refused_in_these_words<D: Driver>(base: &Target, cases: &[(&str, &[(&str, &str)])]) {
    for (expected, properties) in cases {
        let driver: D = open(&with(base.clone(), properties));
        for error in [
            refusal(driver.prepare(&table(), Preparation::UseExisting).await),
            refusal(driver.connect(&table(), 0).await),
        ] {
            assert!(matches!(error, TargetError::Unusable(_)), "{error}");
            let message = keeps_the_secret(&error);
            assert!(message.contains(expected), "{expected:?} is not in: {message}");
        }
    }
}

/// URLs whose password is not escaped: understood or not, it is not repeated.
pub async fn assert_careless_urls_are_not_repeated<D: Driver>(db: &str, port: &str) {
    for secret in [PASSWORD, "p@ss", "s3cret/p@ss", "s3cret?p@ss", "s3cret#p@ss", "s3cret:p@ss"] {
        let url = format!("{db}://{GUARDED}:{secret}@127.0.0.1:{port}/{db}");
        let error = match D::open(&target(db, &url)) {
            Err(error) => error,
            Ok(driver) => refusal(driver.prepare(&table(), Preparation::UseExisting).await),
        };
        keeps_the_secret(&error);
    }
}
