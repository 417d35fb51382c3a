//! `componentstatuses`: whether the parts of the control plane are well. Nothing is stored; they are asked.

use super::{Answer, Call, ErrorResponse, answer};
use crate::negotiation::ResponseKind;
use futures::future::join_all;
use http::StatusCode;
use keepwatch_apimachinery::{meta::Qualified, status::Status};
use keepwatch_registry::{ObjectView, rest::known_fields, schema};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::{Value, json};
use std::{net::Ipv4Addr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// The parts that are asked, and the ports on which they serve their health.
const PARTS: [(&str, u16); 2] = [("controller-manager", 10257), ("scheduler", 10259)];
/// The store, which the server asks itself.
const STORE: &str = "etcd-0";

/// The time within which a component has to answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(20);
/// The number of bytes of its answer that are read.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

impl Call<'_> {
    pub(super) async fn get_component(&self) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::One)?;
        let name = self.context.info.name.as_str();
        if name != STORE && !PARTS.iter().any(|(own, _)| *own == name) {
            return Err(Status::not_found(Qualified::core("componentstatus"), name).into());
        }
        let document = self.component(name).await;
        let mut value = Vec::new();
        schema::write(&mut value, &document, self.route.kind.ty);
        let bytes = renderer.object(&ObjectView { value: value.into(), version_at: None, revision: None })?;
        Ok(answer(StatusCode::OK, &renderer, bytes, Vec::new()))
    }

    pub(super) async fn list_components(&self) -> Result<Answer, ErrorResponse> {
        let renderer = self.renderer(ResponseKind::List)?;
        let options = known_fields(&self.route.kind, self.list_options()?.check()?)?;
        let options = options.options();
        let no_labels: [(&str, &str); 0] = [];
        let is_selected = |name: &&str| {
            options.label_selector.matches(&no_labels)
                && options.field_selector.matches(&[("metadata.name", *name)])
        };
        let names = PARTS.iter().map(|(name, _)| *name).chain([STORE]).filter(is_selected);
        let documents = join_all(names.map(|name| self.component(name))).await;
        let body = renderer.documents(&documents)?;
        Ok(answer(StatusCode::OK, &renderer, body, Vec::new()))
    }

    async fn component(&self, name: &str) -> Value {
        let found = match PARTS.iter().find(|(own, _)| *own == name) {
            Some((_, port)) => ask(*port).await,
            None => match self.api.health.is_met("etcd").await {
                Some(false) => Err("the store does not answer".to_owned()),
                _ => Ok("ok".to_owned()),
            },
        };
        let (status, message) = match found {
            Ok(message) => ("True", message),
            Err(message) => ("False", message),
        };
        json!({
            "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name},
            "conditions": [{"type": "Healthy", "status": status, "message": message}],
        })
    }
}

/// Asks a component on this machine for its health. Returns its answer, or why it is not healthy, in the words of the
/// original.
async fn ask(port: u16) -> Result<String, String> {
    let about = format!("Get \"https://127.0.0.1:{port}/healthz\"");
    let asked = tokio::time::timeout(ANSWER_WAIT_MAX, ask_once(port)).await;
    let response = match asked {
        Ok(Ok(response)) => response,
        Ok(Err(why)) => return Err(format!("{about}: {why}")),
        Err(_) => return Err(format!("{about}: context deadline exceeded")),
    };
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    let is_well = head.split(' ').nth(1) == Some("200");
    if is_well { Ok(body.to_owned()) } else { Err(body.to_owned()) }
}

async fn ask_once(port: u16) -> Result<String, String> {
    let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
    let stream = connecting.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp 127.0.0.1:{port}: connect: {why}")
    })?;
    let response = async {
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut stream = TlsConnector::from(Arc::new(config()?)).connect(name, stream).await?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").await?;
        stream.flush().await?;
        let mut text = Vec::new();
        let read = (&mut stream).take(ANSWER_BYTES_MAX).read_to_end(&mut text).await;
        if text.is_empty() {
            read?;
        }
        Ok::<String, std::io::Error>(String::from_utf8_lossy(&text).into_owned())
    };
    response.await.map_err(|error| error.to_string())
}

fn config() -> std::io::Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?;
    let verifier = Arc::new(AnyCertificate(provider));
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Takes any certificate: the parts make their own, and all that is asked of them is whether they are well.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
