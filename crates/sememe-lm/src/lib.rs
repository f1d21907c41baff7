//! Hooked transformers.
