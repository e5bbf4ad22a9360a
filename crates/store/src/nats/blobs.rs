//! Blobs by digest, laid out as an object store of NATS: `nats object get callboard-blobs DIGEST` reads one.
//!
//! The client's own object store would do, but it waits without end in places, and removes the old pieces of an object
//! that somebody may be reading. Ours are named by their content: what is there is never written again.

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

/// What the object store keeps of an object beside its pieces.
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
        Unavailable::Server { server, doing: "understand a blob of", source: source.into() }
    }

    /// The bytes of that digest, checked against it.
    pub(super) async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        let Some((_, meta)) = self.meta(digest.as_str()).await?.filter(|(_, meta)| !meta.deleted) else {
            return Ok(None);
        };
        let subject = chunk_subject(&meta.nuid);
        // What it says of its size is not ours to believe.
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
    /// Keeps these bytes under their digest.
    pub(super) async fn put_blob(&self, body: &[u8]) -> Result<Digest, Unavailable> {
        let digest = Digest::of(body);
        self.put_object(digest.as_str(), body).await?;
        Ok(digest)
    }

    /// Keeps these bytes under a name that stands for nothing else. The pieces come first: what can be found is whole.
    pub(super) async fn put_object(&self, name: &str, body: &[u8]) -> Result<(), Unavailable> {
        let last = match self.blobs.meta(name).await? {
            Some((_, meta)) if !meta.deleted => return Ok(()),
            Some((sequence, _)) => sequence,
            None => 0,
        };
        let nuid = Uuid::now_v7().simple().to_string();
        let subject = chunk_subject(&nuid);
        let mut sequence = 0;
        for chunk in body.chunks(self.chunk_size) {
            let written = self.blobs.append(&subject, sequence, Bytes::copy_from_slice(chunk)).await?;
            sequence = written.map_err(|Conflict| self.blobs.bad_blob("somebody else writes its pieces"))?;
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
        // Overtaken by somebody with the same bytes: theirs will do.
        let _there: Result<_, _> = self.blobs.append(&meta_subject(name), last, json(&meta)).await?;
        Ok(())
    }

    pub(super) async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.blobs.blob(digest).await
    }
}
