// Package impersonate makes a client act as the user in its context, so that RBAC,
// admission, quotas and the audit log see the real person (DESIGN.md, "Who may do
// what", 3). A request without a user is never sent.
package impersonate
