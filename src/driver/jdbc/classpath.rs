//! The class path as people write it for `java` and for YCSB: entries separated by colons, each a
//! jar, a folder of classes or of jars, `folder/*` for the jars in it, or a pattern of the shell's. A JVM inside a
//! process expands nothing, so we do.

use std::path::{Path, PathBuf};

/// The files and folders that it names, in its order.
///
/// # Errors
/// A sentence, if an entry names nothing.
pub fn expand(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in text.split(':').map(str::trim).filter(|entry| !entry.is_empty()) {
        if !entry.contains(['*', '?', '[']) {
            let path = Path::new(entry);
            if !path.exists() {
                return Err(format!("{entry:?} in jdbc.classpath (-cp) does not exist"));
            }
            found.push(absolute(path));
            found.extend(jars_in(path));
            continue;
        }
        let matches = glob::glob(entry).map_err(|error| format!("{entry:?} in jdbc.classpath (-cp): {error}"))?;
        let every_file = entry.ends_with("/*") || entry == "*";
        let before = found.len();
        found.extend(matches.flatten().filter(|path| !every_file || is_jar(path)).map(|path| absolute(&path)));
        if found.len() == before {
            return Err(format!("no file matches {entry:?} in jdbc.classpath (-cp)"));
        }
    }
    Ok(found)
}

/// Java takes a folder for one of classes only; whoever names a folder of jars means them.
fn jars_in(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = path.read_dir() else { return Vec::new() };
    let files = entries.flatten().map(|entry| absolute(&entry.path()));
    let mut jars: Vec<_> = files.filter(|file| is_jar(file)).collect();
    jars.sort();
    jars
}

fn is_jar(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jar"))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_the_jars_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in ["b-1.2.jar", "a.jar", "notes.txt"] {
            std::fs::write(at(name), "").unwrap();
        }
        let names = |text: &str| -> Vec<String> {
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            expand(text).unwrap().iter().map(name).collect()
        };
        assert_eq!(names(&at("*")), ["a.jar", "b-1.2.jar"]);
        assert_eq!(names(&at("b-*.jar")), ["b-1.2.jar"]);
        assert_eq!(names(&format!("{}:{}", at("b-1.2.jar"), at("a.jar"))), ["b-1.2.jar", "a.jar"]);
        let folder_name = folder.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(names(folder.path().to_str().unwrap()), [folder_name, "a.jar", "b-1.2.jar"]);
        assert_eq!(names(""), [""; 0]);
        assert!(expand(&at("c.jar")).unwrap_err().contains("c.jar"));
        assert!(expand(&at("c-*.jar")).unwrap_err().contains("c-*.jar"));
    }
}
