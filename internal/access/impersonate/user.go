package impersonate

import (
	"context"

	"github.com/agentruntime/operator/api/v1alpha1"
)

type userKey struct{}

// WithUser returns a context whose requests are made as the user.
func WithUser(ctx context.Context, user v1alpha1.Requester) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

func userOf(ctx context.Context) (v1alpha1.Requester, bool) {
	user, ok := ctx.Value(userKey{}).(v1alpha1.Requester)
	return user, ok && user.Username != ""
}
