// Package access asks whether RBAC lets a user do something. It asks the API
// server with SubjectAccessReviews, as the user (name, uid, groups and extra),
// so every authorizer of the cluster has its say. Nothing is cached here: what
// is asked decides over credentials, and a revoked right counts at once.
package access
