//! Authentication and authorization of requests.
//!
//! A request passes through the modules in this order: [`Authenticator`] finds its user by certificate or token
//! (`authenticate`, `certificate`, `version1`, `tokens`), [`Impersonation`] may put another one in that place
//! (`impersonate`), and an [`Authorizer`] says whether the user may (`authorize`).
//!
//! Kept true: a credential that is wrong is never taken for one that is missing, so only requests without any
//! are anonymous. Impersonation is decided by the same authorizer as everything else.

mod user;
mod certificate;
mod version1;
mod tokens;
mod authenticate;
mod authorize;
mod impersonate;

pub use authenticate::{Authenticated, Authenticator, Credentials};
pub use authorize::{AlwaysAllow, Attributes, Authorizer, Decision, authorized, forbidden};
pub(crate) use certificate::RecentlyVerified;
pub use certificate::{AnyCertificate, ClientCertificate};
pub use impersonate::Impersonation;
pub use tokens::{InvalidCredential, StaticTokens, TokenAuthenticator, TokenFileError};
pub use user::{
    ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, CREDENTIAL_ID, NODE_NAME, SYSTEM_MASTERS,
    ServiceAccount, User,
};
pub use version1::WithVersion1;
