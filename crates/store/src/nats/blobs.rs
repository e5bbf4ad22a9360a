//! Blobs by digest, in the layout of a NATS object store: `nats object get callboard-blobs DIGEST` reads one.
//!
//! The client's own object store is not used: some of its waits have no timeout, and overwriting an object removes
//! chunks that another client may be reading. Our objects are named by their content and never overwritten.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::Digest;
use crate::error::{ReadError, Unavailable};
use crate::nats::connection::{BLOBS, Conflict, Lookup, Session, StreamHandle};
use crate::nats::journal::json;

/// The metadata of an object, as NATS defines it.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    name: String,
    bucket: String,
    nuid: String,
    size: usize,
    chunks: usize,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    deleted: bool,
}

fn meta_subject(name: &str) -> String {
    format!("$O.{BLOBS}.M.{}", URL_SAFE.encode(name))
}

fn chunk_subject(nuid: &str) -> String {
    format!("$O.{BLOBS}.C.{nuid}")
}

impl StreamHandle {
    async fn meta(&self, name: &str) -> Result<Option<(u64, Meta)>, Unavailable> {
        let Some(found) = self.find(&meta_subject(name), Lookup::Last).await? else { return Ok(None) };
        match serde_json::from_slice(&found.payload) {
            Ok(meta) => Ok(Some((found.sequence, meta))),
            Err(error) => Err(self.bad_blob(error)),
        }
    }

    fn bad_blob(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Unavailable {
        let server = self.server.clone();
        Unavailable::Server { server, doing: "parse a blob from", source: source.into() }
    }

    /// Returns the bytes of `digest`, or `None` if there is no such blob. Fails if the bytes do not match the digest.
    pub(super) async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        let Some((_, meta)) = self.meta(digest.as_str()).await?.filter(|(_, meta)| !meta.deleted) else {
            return Ok(None);
        };
        let subject = chunk_subject(&meta.nuid);
        // The size in the metadata is not trusted for an allocation.
        let mut body = Vec::new();
        if let Some(last) = self.find(&subject, Lookup::Last).await? {
            match meta.chunks {
                1 => body.extend_from_slice(&last.payload),
                _ => {
                    for chunk in self.scan(&subject, 1, last.sequence).await? {
                        body.extend_from_slice(&chunk.payload);
                    }
                }
            }
        }
        if Digest::of(&body) == *digest {
            Ok(Some(body))
        } else {
            Err(ReadError::DamagedBlob { digest: digest.clone() })
        }
    }
}

impl Session {
    /// Stores bytes under their digest.
    pub(super) async fn put_blob(&self, body: &[u8]) -> Result<Digest, Unavailable> {
        let digest = Digest::of(body);
        self.put_object(digest.as_str(), body).await?;
        Ok(digest)
    }

    /// Stores bytes under a name that never gets other bytes. Chunks come before the metadata, so an object that can be found
    /// is complete.
    pub(super) async fn put_object(&self, name: &str, body: &[u8]) -> Result<(), Unavailable> {
        let expected = match self.blobs.meta(name).await? {
            Some((_, meta)) if !meta.deleted => return Ok(()),
            Some((sequence, _)) => sequence,
            None => 0,
        };
        let nuid = Uuid::now_v7().simple().to_string();
        let subject = chunk_subject(&nuid);
        let mut sequence = 0;
        for chunk in body.chunks(self.chunk_size) {
            let written = self.blobs.append(&subject, sequence, Bytes::copy_from_slice(chunk)).await?;
            sequence =
                written.map_err(|Conflict| self.blobs.bad_blob("another client wrote to its chunks"))?;
        }
        let meta = Meta {
            name: name.to_owned(),
            bucket: BLOBS.to_owned(),
            size: body.len(),
            chunks: body.chunks(self.chunk_size).len(),
            digest: format!("SHA-256={}", URL_SAFE.encode(Sha256::digest(body))),
            deleted: false,
            nuid,
        };
        // A conflict means that another client stored the same bytes.
        let _conflict_is_fine: Result<_, _> =
            self.blobs.append(&meta_subject(name), expected, json(&meta)).await?;
        Ok(())
    }

    pub(super) async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.blobs.blob(digest).await
    }
}
