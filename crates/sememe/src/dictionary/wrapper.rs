//! What the dictionaries that are made of another share: everything but their weights' form is the other's.

use burn::tensor::Tensor;

use super::{Batch, Codes, Dictionary, DictionaryConfig, DictionaryError, DictionaryKind, Draft, Form, Widths};
use crate::train::StepContext;

/// A dictionary made of another.
pub(super) trait Wrapper {
    /// Its tag.
    const TAG: &'static str;

    /// The dictionary that it is.
    fn base(&self) -> &DictionaryKind;

    /// The base's form with what is its own.
    fn form_of(&self, base: Form) -> Form;

    /// Refuses settings of its own that make no sense for these widths.
    fn check_own(&self, _widths: Widths) -> Result<(), DictionaryError> {
        Ok(())
    }
}

impl<W: Wrapper> DictionaryConfig for W {
    fn n(&self) -> usize {
        self.base().member().n()
    }

    fn check(&self, widths: Widths) -> Result<(), DictionaryError> {
        let base = self.base();
        if matches!(base, DictionaryKind::Transcoder(_) | DictionaryKind::Crosscoder(_)) {
            return Err(DictionaryError {
                dictionary: W::TAG,
                key: "base",
                got: format!("`{}`", base.tag()),
                expected: "give a dictionary that is not itself made of another".into(),
            });
        }
        self.check_own(widths)?;
        base.member().check(widths)
    }

    fn form(&self) -> Form {
        self.form_of(self.base().member().form())
    }

    fn codes(&self, dictionary: &Dictionary, x: Tensor<2>) -> Codes {
        self.base().member().codes(dictionary, x)
    }

    fn draft(&self, dictionary: &Dictionary, batch: &Batch, at: &StepContext) -> Draft {
        self.base().member().draft(dictionary, batch, at)
    }

    fn dead_after_tokens(&self) -> usize {
        self.base().member().dead_after_tokens()
    }

    fn threshold_momentum(&self) -> f64 {
        self.base().member().threshold_momentum()
    }
}
