//! The one mechanism by which a kind lists its members: a closed enum, one line a member.
//!
//! A catalogue gives, from one line `"tag" => Variant(Type)`, the config enum
//! (`name = "tag"` in TOML), the tag list for `sememe list`, a default of
//! every member for the law tests, and dispatch to the kind's trait.

/// What every member of every catalogue has.
pub trait Member: Default {
    /// One line that says what the member is, shown by `sememe list`.
    const ABOUT: &'static str;
    /// Where the method comes from: paper and equation.
    const SOURCE: &'static str;
}

/// A member's line in a catalogue, as shown by `sememe list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value of the `name` key in a config.
    pub tag: &'static str,
    /// One line about the member.
    pub about: &'static str,
    /// Paper and equation.
    pub source: &'static str,
}

/// Declares the closed enum of a kind: `catalogue! { /// doc  pub enum Kind: Trait { "tag" => Variant(Type), … } }`.
///
/// The enum serialises as a table with a `name` key; each `Type` is the
/// member's config (plain data with `#[serde(default, deny_unknown_fields)]`)
/// and implements both [`Member`] and the kind's trait.
#[macro_export]
macro_rules! catalogue {
    ($(#[$meta:meta])* $vis:vis enum $Kind:ident: $Trait:path { $($tag:literal => $Variant:ident($Type:ty)),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "name")]
        $vis enum $Kind {
            $(#[doc = concat!("`name = \"", $tag, "\"`")] #[serde(rename = $tag)] $Variant($Type)),+
        }

        impl $Kind {
            /// One entry a member, in catalogue order.
            pub const ENTRIES: &'static [$crate::catalogue::Entry] = &[
                $($crate::catalogue::Entry {
                    tag: $tag,
                    about: <$Type as $crate::catalogue::Member>::ABOUT,
                    source: <$Type as $crate::catalogue::Member>::SOURCE,
                }),+
            ];

            /// Every member with its default config, in catalogue order.
            pub fn defaults() -> Vec<Self> {
                vec![$(Self::$Variant(<$Type>::default())),+]
            }

            /// The tag by which configs name this member.
            pub fn tag(&self) -> &'static str {
                match self { $(Self::$Variant(_) => $tag),+ }
            }

            /// The member behind the kind's trait.
            pub fn member(&self) -> &dyn $Trait {
                match self { $(Self::$Variant(member) => member),+ }
            }
        }
    };
}
