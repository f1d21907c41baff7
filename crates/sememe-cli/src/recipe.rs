//! The recipes: configs and reproductions that come with the program, one TOML file each under `recipes/`.

use anyhow::{Result, bail};

/// A recipe that is built in.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// File name without `.toml`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// What a config describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One run of a generative model: `[model]`.
    Generative,
    /// One run of a dictionary: `[dictionary]`.
    Dictionary,
    /// One run of a pair of dictionaries around a layer: `[pair]`.
    Pair,
    /// Pairs on the same activations: `[[compared]]`.
    PairComparison,
    /// One run of a small transformer: `[transformer]`.
    LanguageModel,
    /// A result over a grid: `[[axis]]`.
    Reproduction,
    /// Dictionaries on the same activations: `[harvest]`.
    Comparison,
}

impl Kind {
    /// By the keys of the table.
    pub fn of(table: &toml::Table) -> Self {
        let has = |key: &str| table.contains_key(key);
        match () {
            () if has("axis") => Self::Reproduction,
            () if has("compared") => Self::PairComparison,
            () if has("pair") => Self::Pair,
            () if has("harvest") => Self::Comparison,
            () if has("dictionary") => Self::Dictionary,
            () if has("transformer") => Self::LanguageModel,
            () => Self::Generative,
        }
    }

    /// The command that carries it out.
    pub fn command(self) -> &'static str {
        match self {
            Self::Generative | Self::Dictionary | Self::Pair | Self::LanguageModel => "train",
            Self::Reproduction => "reproduce",
            Self::Comparison | Self::PairComparison => "compare",
        }
    }
}

macro_rules! recipes {
    ($($name:literal),+ $(,)?) => {
        &[$(Recipe { name: $name, text: include_str!(concat!("../../../recipes/", $name, ".toml")) }),+]
    };
}

/// One line a recipe.
const RECIPES: &[Recipe] = recipes![
    "synthetic-diverse",
    "three-dots",
    "element-mcc",
    "set-r2",
    "penalties",
    "weight-sweep",
    "ablation",
    "pocket",
    "pocket-dictionaries",
    "smollm2-dictionaries",
    "pocket-pairs",
    "smollm2-pairs"
];

impl Recipe {
    fn table(self) -> toml::Table {
        self.text.parse().unwrap_or_default()
    }

    /// Its `about` line.
    pub fn about(self) -> String {
        self.table().get("about").and_then(toml::Value::as_str).unwrap_or_default().to_string()
    }

    /// What it is, by the keys that it has.
    pub fn kind(self) -> Kind {
        Kind::of(&self.table())
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

/// The config of a recipe that is one run of a generative model.
pub fn generative(name: &str, overrides: &[String]) -> Result<sememe_run::generative::Config> {
    let recipe = find(name)?;
    if recipe.kind() != Kind::Generative {
        bail!("recipe `{name}` is no run of a generative model; use `sememe {} {name}`", recipe.kind().command());
    }
    Ok(sememe_run::config::parse(recipe.text, &format!("recipe {name}"), overrides)?)
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
            let checked = match recipe.kind() {
                Kind::Reproduction => crate::command::check_reproduction(recipe).err().map(|error| error.to_string()),
                Kind::Generative => generative(recipe.name, &[]).err().map(|error| error.to_string()),
                Kind::Dictionary => parsed::<sememe_run::dictionary::Config>(recipe),
                Kind::LanguageModel => parsed::<sememe_run::language_model::Config>(recipe),
                Kind::Pair => parsed::<sememe_run::pair::Config>(recipe),
                Kind::PairComparison => parsed::<sememe_run::pair::PairComparisonConfig>(recipe),
                Kind::Comparison => parsed::<sememe_run::dictionary::ComparisonConfig>(recipe),
            };
            assert_eq!(checked, None, "{}", recipe.name);
        }
    }

    fn parsed<C: serde::de::DeserializeOwned + sememe_run::config::Checked>(recipe: &Recipe) -> Option<String> {
        sememe_run::config::parse::<C>(recipe.text, recipe.name, &[]).err().map(|error| error.to_string())
    }
}
