//! A certificate authority for tests.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the authority's own certificate to a file.
    pub(crate) fn file(&self, directory: &Path, name: &str) -> PathBuf {
        write(directory, name, &self.0.pem())
    }

    /// Signs a certificate for a name or an address. Returns its file and that of its key.
    pub(crate) fn sign(&self, directory: &Path, subject: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![subject.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, subject);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let file = |kind: &str, text: String| write(directory, &format!("{subject}.{kind}"), &text);
        (file("certificate", certificate.pem()), file("key", key.serialize_pem()))
    }
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path
}
