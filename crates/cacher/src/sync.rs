//! The locks between the feed and the watchers. With feature `loom` they are loom's, which check every interleaving of
//! the threads that take them.

#[cfg(not(feature = "loom"))]
pub(crate) use parking_lot::{Mutex, RwLock};

#[cfg(feature = "loom")]
pub(crate) use checked::{Mutex, RwLock};

/// loom's locks with the interface of parking_lot's.
#[cfg(feature = "loom")]
mod checked {
    use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("loom stops at a panic")
        }
    }

    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("loom stops at a panic")
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("loom stops at a panic")
        }
    }
}
