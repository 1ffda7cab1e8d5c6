//! Shapes and host tensors: what a value measures, and its numbers in main memory.

use std::fmt;

use crate::error::Error;

/// The sizes of a tensor's axes, outermost first; its numbers lie row-major without gaps.
///
/// Prints as D2L writes it, `(2, 4, 100)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// Makes a shape of the given axes.
    #[must_use]
    pub fn new(axes: impl Into<Vec<usize>>) -> Self {
        Self(axes.into())
    }

    /// The sizes of the axes, outermost first.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.0
    }

    /// How many axes there are.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// How many elements there are, or `None` if that number does not fit in a `usize`.
    #[must_use]
    pub fn checked_len(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1_usize, |product, &axis| product.checked_mul(axis))
    }

    /// Where the element at a row-major `place` stands, axis by axis.
    pub(crate) fn index_of(&self, mut place: usize) -> Vec<usize> {
        let mut index = vec![0; self.0.len()];
        for (index, &axis) in index.iter_mut().zip(&self.0).rev() {
            *index = place % axis;
            place /= axis;
        }
        index
    }
}

impl<const RANK: usize> From<[usize; RANK]> for Shape {
    fn from(axes: [usize; RANK]) -> Self {
        Self(axes.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(axes: Vec<usize>) -> Self {
        Self(axes)
    }
}

impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        self.0 == other
    }
}

impl<const RANK: usize> PartialEq<[usize; RANK]> for Shape {
    fn eq(&self, other: &[usize; RANK]) -> bool {
        self.0 == other
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "({only},)"),
            axes => {
                f.write_str("(")?;
                for (index, axis) in axes.iter().enumerate() {
                    write!(f, "{}{axis}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// A tensor in main memory: a shape and as many numbers as it says, row-major.
#[derive(Clone, PartialEq)]
pub struct HostTensor<T = f32> {
    shape: Shape,
    data: Vec<T>,
}

impl<T> HostTensor<T> {
    /// Joins a shape and its numbers.
    ///
    /// # Errors
    /// [`Error::DataLength`] when `data` does not hold exactly as many numbers as `shape` says.
    ///
    /// # Example
    /// ```
    /// use multihead::HostTensor;
    /// let query = HostTensor::new([1, 2, 2], vec![1.0, 0.0, 0.0, 1.0])?; // (B, Lq, E)
    /// assert_eq!(query.shape(), &[1, 2, 2]);
    /// # Ok::<(), multihead::Error>(())
    /// ```
    pub fn new(shape: impl Into<Shape>, data: Vec<T>) -> Result<Self, Error> {
        let shape = shape.into();
        if shape.checked_len() == Some(data.len()) {
            Ok(Self { shape, data })
        } else {
            Err(Error::DataLength { got: data.len(), shape })
        }
    }

    /// The sizes of the axes.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The numbers, row-major.
    #[must_use]
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// The numbers, to be changed in place.
    pub(crate) fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// Gives the numbers away.
    #[must_use]
    pub fn into_data(self) -> Vec<T> {
        self.data
    }
}

impl<T> fmt::Debug for HostTensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTensor<{}>{}", std::any::type_name::<T>(), self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_print_as_d2l_writes_them() {
        assert_eq!(Shape::from([2, 4, 100]).to_string(), "(2, 4, 100)");
        assert_eq!(Shape::from([7]).to_string(), "(7,)");
        assert_eq!(Shape::from([]).to_string(), "()");
    }

    #[test]
    fn an_axis_of_zero_makes_an_empty_tensor_however_large_the_others() {
        assert_eq!(Shape::from([usize::MAX, usize::MAX, 0]).checked_len(), Some(0));
        assert_eq!(Shape::from([usize::MAX, 2]).checked_len(), None);
        assert_eq!(Shape::from([]).checked_len(), Some(1));
    }

    #[test]
    fn elements_are_found_axis_by_axis() {
        assert_eq!(Shape::from([2, 3, 4]).index_of(23), [1, 2, 3]);
        assert_eq!(Shape::from([2, 3, 4]).index_of(6), [0, 1, 2]);
        assert_eq!(Shape::from([]).index_of(0), [0; 0]);
    }

    #[test]
    fn data_of_another_length_is_refused() {
        let error = HostTensor::new([2, 3], vec![0.0; 5]).expect_err("5 numbers are not 6");
        assert_eq!(error.to_string(), "5 numbers do not fill shape (2, 3)");
    }
}
