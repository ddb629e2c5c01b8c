//! Handles of objects, and the arrays that hold the objects.
//!
//! A handle names an object of one HCA. It has a generation, so a handle of a destroyed object is refused even if the
//! place was given to another object.

use core::marker::PhantomData;

use crate::error::VerbsError;

/// Kinds of objects, each with a name for error texts.
pub trait Kind {
    /// The name of the kind in an error text.
    const NAME: &'static str;
}

/// A handle of an object of kind `K`. It is valid for the HCA that returned it.
pub struct Handle<K> {
    index: u32,
    generation: u32,
    kind: PhantomData<fn() -> K>,
}

impl<K> Handle<K> {
    const fn new(index: u32, generation: u32) -> Self {
        Self {
            index,
            generation,
            kind: PhantomData,
        }
    }

    /// Returns the place of the object in its array.
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }

    /// Returns how often the place was given away before.
    pub(crate) const fn generation(self) -> u32 {
        self.generation
    }
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Handle<K> {}

impl<K> PartialEq for Handle<K> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}

impl<K> Eq for Handle<K> {}

impl<K> PartialOrd for Handle<K> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Handle<K> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.index, self.generation).cmp(&(other.index, other.generation))
    }
}

impl<K: Kind> core::fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}#{}.{}", K::NAME, self.index, self.generation)
    }
}

macro_rules! kinds {
    ($($marker:ident $alias:ident $name:literal $doc:literal;)*) => {
        $(
            #[doc = concat!("Marks handles of kind \"", $name, "\".")]
            #[derive(Clone, Copy, Debug)]
            pub enum $marker {}

            impl Kind for $marker {
                const NAME: &'static str = $name;
            }

            #[doc = $doc]
            pub type $alias = Handle<$marker>;
        )*
    };
}

kinds! {
    ContextKind Context "context" "An open device, with the asynchronous events of its objects and of all ports.";
    PdKind Pd "protection domain" "A protection domain.";
    MrKind Mr "memory region" "A memory region.";
    ChannelKind CompChannel "completion channel" "A completion channel.";
    CqKind Cq "completion queue" "A completion queue.";
    SrqKind Srq "shared receive queue" "A shared receive queue.";
    AhKind Ah "address handle" "An address handle.";
    QpKind Qp "queue pair" "A queue pair.";
}

/// Objects of one kind, with reused places.
#[derive(Clone, Debug)]
pub(crate) struct Slab<K, T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    limit: u32,
    kind: PhantomData<fn() -> K>,
}

#[derive(Clone, Debug)]
struct Place<T> {
    generation: u32,
    object: Option<T>,
}

impl<K: Kind, T> Slab<K, T> {
    pub const fn new(limit: u32) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            limit,
            kind: PhantomData,
        }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Stores the object that `make` builds from its handle.
    pub fn insert_with(&mut self, make: impl FnOnce(Handle<K>) -> T) -> Result<Handle<K>, VerbsError> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            let handle = Handle::new(index, place.generation);
            place.object = Some(make(handle));
            return Ok(handle);
        }
        let index = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        if index >= self.limit {
            return Err(VerbsError::TooMany {
                what: K::NAME,
                limit: self.limit,
            });
        }
        let handle = Handle::new(index, 0);
        self.places.push(Place {
            generation: 0,
            object: Some(make(handle)),
        });
        Ok(handle)
    }

    /// Stores an object.
    pub fn insert(&mut self, object: T) -> Result<Handle<K>, VerbsError> {
        self.insert_with(|_| object)
    }

    /// Removes an object.
    pub fn remove(&mut self, handle: Handle<K>) -> Result<T, VerbsError> {
        self.get(handle)?;
        let place = &mut self.places[handle.index()];
        place.generation = place.generation.wrapping_add(1);
        self.free.push(handle.index);
        place.object.take().ok_or(VerbsError::UnknownHandle { what: K::NAME })
    }

    pub fn get(&self, handle: Handle<K>) -> Result<&T, VerbsError> {
        let place = self.places.get(handle.index());
        place
            .filter(|place| place.generation == handle.generation)
            .and_then(|place| place.object.as_ref())
            .ok_or(VerbsError::UnknownHandle { what: K::NAME })
    }

    pub fn get_mut(&mut self, handle: Handle<K>) -> Result<&mut T, VerbsError> {
        let place = self.places.get_mut(handle.index());
        place
            .filter(|place| place.generation == handle.generation)
            .and_then(|place| place.object.as_mut())
            .ok_or(VerbsError::UnknownHandle { what: K::NAME })
    }

    /// Returns the object at a place, if there is one.
    pub fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.object.as_ref()
    }

    /// Returns the object at a place, if there is one.
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.object.as_mut()
    }

    /// Returns the handle of the object at a place, if there is one.
    pub fn handle_at(&self, index: u32) -> Option<Handle<K>> {
        let place = self.places.get(index as usize)?;
        place.object.as_ref()?;
        Some(Handle::new(index, place.generation))
    }

    /// Returns all objects with their handles, in order of places.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<K>, &T)> {
        (0..).zip(&self.places).filter_map(|(index, place)| {
            let object = place.object.as_ref()?;
            Some((Handle::new(index, place.generation), object))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_a_destroyed_object_is_refused() {
        let mut slab: Slab<PdKind, u8> = Slab::new(2);
        let first = slab.insert(1).unwrap();
        assert_eq!(slab.remove(first), Ok(1));
        let second = slab.insert(2).unwrap();
        assert_eq!(first.index(), second.index());
        assert!(matches!(slab.get(first), Err(VerbsError::UnknownHandle { .. })));
        assert_eq!(slab.get(second), Ok(&2));
        slab.insert(3).unwrap();
        assert!(matches!(slab.insert(4), Err(VerbsError::TooMany { limit: 2, .. })));
        assert_eq!(slab.len(), 2);
    }
}
