//! What a run is given: host tensors by the names of a graph's values.

use std::collections::{BTreeMap, BTreeSet};

use super::{DType, Graph, Source, Value, ValueId};
use crate::error::Error;
use crate::shape::{HostTensor, Shape};

/// A host tensor of one of the types that a graph's values have.
#[derive(Clone, Copy, Debug)]
pub enum HostValue<'a> {
    /// For [`DType::F32`].
    F32(&'a HostTensor<f32>),
    /// For [`DType::U32`].
    U32(&'a HostTensor<u32>),
    /// For [`DType::Bool`].
    Bool(&'a HostTensor<bool>),
    /// For [`DType::F16`].
    F16(&'a HostTensor<half::f16>),
}

impl HostValue<'_> {
    fn shape(&self) -> &Shape {
        match self {
            Self::F32(tensor) => tensor.shape(),
            Self::U32(tensor) => tensor.shape(),
            Self::Bool(tensor) => tensor.shape(),
            Self::F16(tensor) => tensor.shape(),
        }
    }

    fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::U32(_) => DType::U32,
            Self::Bool(_) => DType::Bool,
            Self::F16(_) => DType::F16,
        }
    }
}

impl<'a> From<&'a HostTensor<f32>> for HostValue<'a> {
    fn from(tensor: &'a HostTensor<f32>) -> Self {
        Self::F32(tensor)
    }
}

impl<'a> From<&'a HostTensor<u32>> for HostValue<'a> {
    fn from(tensor: &'a HostTensor<u32>) -> Self {
        Self::U32(tensor)
    }
}

impl<'a> From<&'a HostTensor<bool>> for HostValue<'a> {
    fn from(tensor: &'a HostTensor<bool>) -> Self {
        Self::Bool(tensor)
    }
}

impl<'a> From<&'a HostTensor<half::f16>> for HostValue<'a> {
    fn from(tensor: &'a HostTensor<half::f16>) -> Self {
        Self::F16(tensor)
    }
}

/// Host tensors by name.
///
/// # Example
/// ```
/// use multihead::{HostTensor, Inputs};
/// let query = HostTensor::new([1, 1, 2], vec![1.0, 2.0])?;
/// let inputs = Inputs::new().with("query", &query);
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Inputs<'a> {
    values: BTreeMap<&'a str, HostValue<'a>>,
}

impl<'a> Inputs<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds (or replaces) the tensor of one name.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: impl Into<HostValue<'a>>) -> Self {
        self.values.insert(name, value.into());
        self
    }

    /// All but the tensors of these names.
    pub(crate) fn without<'n>(mut self, names: impl Iterator<Item = &'n String>) -> Self {
        names.for_each(|name| {
            self.values.remove(name.as_str());
        });
        self
    }

    /// The graph's values of one kind of source with their tensors, in the graph's order, but for those `elsewhere`.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::WrongShape`] or [`Error::Invalid`] where a tensor is absent or of another shape or
    /// type, or where the graph has no value of a name.
    pub(crate) fn of<'g>(
        &self,
        graph: &'g Graph,
        source: Source,
        elsewhere: &BTreeSet<ValueId>,
    ) -> Result<Vec<(ValueId, &'g Value, HostValue<'a>)>, Error> {
        let known: Vec<_> = graph.sources(source).filter(|(id, _)| !elsewhere.contains(id)).collect();
        for &name in self.values.keys() {
            if !known.iter().any(|(_, value)| value.name == name) {
                let names: Vec<_> = known.iter().map(|(_, value)| value.name.as_str()).collect();
                return Err(Error::Invalid(format!("the graph has no input \"{name}\"; it has {}", names.join(", "))));
            }
        }
        known.into_iter().map(|(id, value)| Ok((id, value, self.one(value)?))).collect()
    }

    fn one(&self, value: &Value) -> Result<HostValue<'a>, Error> {
        let given = self.values.get(value.name.as_str()).ok_or_else(|| Error::Missing {
            what: format!("{} {}", value.name, value.shape),
            hint: "every input and parameter of the graph must be given".into(),
        })?;
        if given.shape() != &value.shape {
            return Err(Error::WrongShape {
                what: value.name.clone(),
                got: given.shape().clone(),
                expected: format!("the graph was built for {}", value.shape),
            });
        }
        // A plan may store a parameter as halves, and rounds it itself.
        let is_rounded = value.source == Source::Parameter && [given.dtype(), value.dtype] == [DType::F32, DType::F16];
        if given.dtype() != value.dtype && !is_rounded {
            return Err(Error::Invalid(format!(
                "{} is given as {}, but the graph was built for {}",
                value.name,
                given.dtype(),
                value.dtype
            )));
        }
        Ok(*given)
    }
}
