// Package access is who is calling and whether RBAC lets them (DESIGN.md, "Who may
// do what").
//
// Authenticator says who sent a request on the facade's own listener; the package
// frontproxy does so for what comes through the API server's aggregator. Both give a
// Caller. Authorizer asks the API server with SubjectAccessReviews, as the user (name,
// uid, groups and extra), so every authorizer of the cluster has its say.
//
// SubjectAccessReviews caches nothing, for what decides over credentials: a revoked
// right counts at once. CachedAuthorizer and Authenticator remember answers for a
// few seconds, for what is asked with every read.
package access
