//! `${NAME}` and `${file:/path}` inside strings: environment variables, and the first line of a file (container secrets).
//!
//! What was put in is not looked through again, and never appears in a fault: faults quote a text as it stands in TOML.

use std::path::Path;

use super::files;

/// Looks a variable up; `None` where it isn't set. It is asked for a file (`file:/path`) too, once that can't be read.
pub(super) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// How a fault begins that is none of the text itself: what it names is not there.
pub(super) const NEEDS: &str = "needs the";

/// The text with everything put in, or what hinders it and how to mend that.
pub(super) fn expand(raw: &str, environment: &Environment) -> Result<String, String> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let inside = &rest[start + 2..];
        let end = inside.find('}').ok_or("holds \"${\" without \"}\": write ${NAME} or ${file:/path}")?;
        out.push_str(&one(&inside[..end], environment)?);
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn one(name: &str, environment: &Environment) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        return first_line(Path::new(path.trim())).or_else(|wrong| environment(name).ok_or(wrong));
    }
    let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !well_formed {
        return Err(format!("holds ${{{name}}}, which names no variable: write ${{NAME}} or ${{file:/path}}"));
    }
    environment(name).ok_or_else(|| {
        format!("{NEEDS} environment variable {name}, which is not set: set it, or write the value here")
    })
}

fn first_line(path: &Path) -> Result<String, String> {
    match files::text(path, "create it, or correct its path") {
        Ok(text) => Ok(text.lines().next().unwrap_or_default().to_owned()),
        Err(wrong) => Err(format!("{NEEDS} file {}, which {wrong}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(raw: &str) -> Result<String, String> {
        expand(raw, &|name| match name {
            "HOST" => Some("orders".into()),
            "TRICK" => Some("${HOST}".into()),
            _ => None,
        })
    }

    #[test]
    fn variables_stand_anywhere_and_are_not_looked_through_again() {
        assert_eq!(expanded("http://${HOST}:1/${HOST}").as_deref(), Ok("http://orders:1/orders"));
        assert_eq!(expanded("${TRICK}").as_deref(), Ok("${HOST}"));
        assert_eq!(expanded("{{ args.x }} $5 {}").as_deref(), Ok("{{ args.x }} $5 {}"));
    }

    #[test]
    fn a_file_gives_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "s3cret\r\nsecond\n").unwrap();
        assert_eq!(expanded(&format!("a-${{file:{}}}", path.display())).as_deref(), Ok("a-s3cret"));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (raw, word) in [
            ("${NOT_SET}", "NOT_SET"),
            ("${file:/nowhere/secret}", "/nowhere/secret"),
            ("${HOST", "without \"}\""),
            ("${}", "names no variable"),
            ("${a-b}", "names no variable"),
        ] {
            assert!(expanded(raw).unwrap_err().contains(word), "{raw}");
        }
    }
}
