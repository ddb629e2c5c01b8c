//! Vectors indexed by an identifier instead of `usize`.

use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

/// An identifier that is an index into an [`IdxVec`].
pub trait Idx: Copy + Ord + core::fmt::Debug {
    /// Converts from an index.
    fn from_usize(index: usize) -> Self;
    /// Converts to an index.
    fn to_usize(self) -> usize;
}

/// A vector that is indexed by only one kind of identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdxVec<I, T> {
    raw: Vec<T>,
    index: PhantomData<fn(I) -> I>,
}

impl<I: Idx, T> IdxVec<I, T> {
    /// Returns an empty vector.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            raw: Vec::new(),
            index: PhantomData,
        }
    }

    /// Returns `len` copies of `value`.
    #[must_use]
    pub fn filled(value: T, len: usize) -> Self
    where
        T: Clone,
    {
        Self::from(vec![value; len])
    }

    /// Appends an element and returns its identifier.
    pub fn push(&mut self, value: T) -> I {
        self.raw.push(value);
        I::from_usize(self.raw.len() - 1)
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// True if there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Returns the element, if there is one.
    #[must_use]
    pub fn get(&self, index: I) -> Option<&T> {
        self.raw.get(index.to_usize())
    }

    /// Returns the element for changes, if there is one.
    pub fn get_mut(&mut self, index: I) -> Option<&mut T> {
        self.raw.get_mut(index.to_usize())
    }

    /// Iterates over all identifiers, ascending.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.raw.len()).map(I::from_usize)
    }

    /// Iterates over all elements in order.
    pub fn iter(&self) -> core::slice::Iter<'_, T> {
        self.raw.iter()
    }

    /// Iterates over all elements in order, for changes.
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.raw.iter_mut()
    }

    /// Iterates over identifiers with their elements.
    pub fn iter_enumerated(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.raw.iter().enumerate().map(|(i, value)| (I::from_usize(i), value))
    }

    /// Returns the elements as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.raw
    }
}

impl<I: Idx, T> Default for IdxVec<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Idx, T> From<Vec<T>> for IdxVec<I, T> {
    fn from(raw: Vec<T>) -> Self {
        Self {
            raw,
            index: PhantomData,
        }
    }
}

impl<I: Idx, T> FromIterator<T> for IdxVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(iter: It) -> Self {
        Self::from(iter.into_iter().collect::<Vec<_>>())
    }
}

impl<I: Idx, T> Index<I> for IdxVec<I, T> {
    type Output = T;

    fn index(&self, index: I) -> &T {
        &self.raw[index.to_usize()]
    }
}

impl<I: Idx, T> IndexMut<I> for IdxVec<I, T> {
    fn index_mut(&mut self, index: I) -> &mut T {
        &mut self.raw[index.to_usize()]
    }
}
