//! The document of a run at some revision, with the protocol's type erased.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::check::Violation;
use crate::protocol_trait::{Protocol, View};

/// A document of some protocol. Clones share it.
#[derive(Clone)]
pub struct Document(Arc<dyn AnyDocument>);

impl Document {
    pub fn new<P: Protocol>(document: Arc<P::Document>) -> Self {
        Self(Arc::new(TypedDocument::<P>(document)))
    }

    /// Returns the typed document. Panics if it is of another protocol: documents of two runs were mixed up.
    pub fn typed<P: Protocol>(&self) -> Arc<P::Document> {
        let any: &dyn Any = self.0.as_any();
        let typed = any.downcast_ref::<TypedDocument<P>>();
        Arc::clone(&typed.expect("BUG: the document is of another protocol").0)
    }

    /// Returns the document's own count of its changes, if it has one.
    pub fn sequence(&self) -> Option<u64> {
        self.0.sequence()
    }

    /// Some documents contain a history of their changes: returns its last entry.
    pub fn last_change(&self) -> Option<Value> {
        self.0.last_change()
    }

    /// Checks the rules that are checked at every load, and returns those that are violated.
    pub fn violations(&self) -> Vec<Violation> {
        self.0.violations()
    }

    /// Returns the files that show the document.
    pub fn views(&self) -> Vec<View> {
        self.0.views()
    }

    /// Returns the document as JSON.
    pub fn to_value(&self) -> Value {
        self.0.to_value()
    }

    /// Returns the document as JSON text.
    pub fn to_json(&self) -> String {
        self.0.to_json()
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&*other.0)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

trait AnyDocument: fmt::Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn is_same(&self, other: &dyn AnyDocument) -> bool;
    fn sequence(&self) -> Option<u64>;
    fn last_change(&self) -> Option<Value>;
    fn violations(&self) -> Vec<Violation>;
    fn views(&self) -> Vec<View>;
    fn to_value(&self) -> Value;
    fn to_json(&self) -> String;
}

struct TypedDocument<P: Protocol>(Arc<P::Document>);

impl<P: Protocol> fmt::Debug for TypedDocument<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<P: Protocol> AnyDocument for TypedDocument<P> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_same(&self, other: &dyn AnyDocument) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.0 == other.0)
    }

    fn sequence(&self) -> Option<u64> {
        P::sequence(&self.0)
    }

    fn last_change(&self) -> Option<Value> {
        P::last_change(&self.0)
    }

    fn violations(&self) -> Vec<Violation> {
        P::violations(&self.0)
    }

    fn views(&self) -> Vec<View> {
        P::views(&self.0)
    }

    fn to_value(&self) -> Value {
        crate::machine::json(&*self.0)
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&*self.0).expect("BUG: a document is plain data")
    }
}
