//! The recipes: configs and reproductions that come with the program, one TOML file each under `recipes/`.

use anyhow::{Result, bail};
use sememe_run::generative::Config;

/// A recipe that is built in.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// File name without `.toml`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! recipes {
    ($($name:literal),+ $(,)?) => {
        &[$(Recipe { name: $name, text: include_str!(concat!("../../../recipes/", $name, ".toml")) }),+]
    };
}

/// One line a recipe.
const RECIPES: &[Recipe] = recipes!["synthetic-diverse", "three-dots", "element-mcc", "set-r2", "penalties", "weight-sweep", "ablation",];

impl Recipe {
    fn table(self) -> toml::Table {
        self.text.parse().unwrap_or_default()
    }

    /// Its `about` line.
    pub fn about(self) -> String {
        self.table().get("about").and_then(toml::Value::as_str).unwrap_or_default().to_string()
    }

    /// Whether it repeats a result over a grid (`sememe reproduce`) rather than being one run (`sememe train`).
    pub fn is_reproduction(self) -> bool {
        self.table().contains_key("axis")
    }
}

/// Every recipe.
pub fn all() -> Vec<Recipe> {
    RECIPES.to_vec()
}

/// The recipe of this name.
pub fn find(name: &str) -> Result<Recipe> {
    match RECIPES.iter().find(|recipe| recipe.name == name) {
        Some(recipe) => Ok(*recipe),
        None => bail!("no recipe `{name}`; there are {}", RECIPES.iter().map(|recipe| recipe.name).collect::<Vec<_>>().join(", ")),
    }
}

/// The config of a recipe that is one run.
pub fn config(name: &str, overrides: &[String]) -> Result<Config> {
    let recipe = find(name)?;
    if recipe.is_reproduction() {
        bail!("recipe `{name}` repeats a result over many runs; use `sememe reproduce {name}`");
    }
    Ok(Config::parse(recipe.text, &format!("recipe {name}"), overrides)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_file_is_listed_and_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes");
        let Ok(files) = std::fs::read_dir(folder) else { panic!("{folder}") };
        let mut names: Vec<String> =
            files.flatten().map(|file| file.file_name().to_string_lossy().trim_end_matches(".toml").to_string()).collect();
        let mut listed: Vec<String> = RECIPES.iter().map(|recipe| recipe.name.to_string()).collect();
        names.sort();
        listed.sort();
        assert_eq!(names, listed, "a recipe needs a line in RECIPES");
        for recipe in RECIPES {
            assert!(!recipe.about().is_empty(), "{} says nothing about itself", recipe.name);
            if recipe.is_reproduction() {
                let checked = crate::command::check_reproduction(recipe);
                assert!(checked.is_ok(), "{}: {checked:?}", recipe.name);
            } else {
                let config = config(recipe.name, &[]);
                assert!(config.is_ok(), "{}: {config:?}", recipe.name);
            }
        }
    }
}
