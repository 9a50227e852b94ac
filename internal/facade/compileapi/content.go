package compileapi

import (
	"context"
	"fmt"
	"sync"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
	"github.com/agentruntime/operator/internal/viking"
)

// maxLookups bounds the look-ups of one request that run at a time.
const maxLookups = 8

// Messages of B.3 and B.2.
const (
	msgSourceDir = "Compile source must be a directory: "
	msgSkillDir  = "skill must resolve to a Skill directory or SKILL.md"
	msgSkillFile = "Skill directory must contain a SKILL.md file"
	msgTargetDir = "Compile target must be a directory"
)

// lookup is one question to the content store and what its answer means.
type lookup struct {
	uri string
	// kind is what the URI should be, in the words of a 404's details.
	kind string
	// file asks for a file; otherwise a directory is meant.
	file bool
	// optional accepts that nothing is there.
	optional bool
	// wrong is the message where something else is there.
	wrong string
}

// lookups are the steps 9 to 12 of B.3, in their order.
func lookups(request viking.Canonical) []lookup {
	out := make([]lookup, 0, len(request.From)+3)
	for _, uri := range request.From {
		out = append(out, lookup{uri: uri, kind: "directory", wrong: msgSourceDir + uri})
	}
	return append(out,
		lookup{uri: request.Skill, kind: "skill", wrong: msgSkillDir},
		lookup{uri: request.Skill + "/" + viking.SkillFile, kind: "file", file: true, wrong: msgSkillFile},
		lookup{uri: request.To, kind: "directory", optional: true, wrong: msgTargetDir},
	)
}

// checkContent asks the runtime's content store, where one is configured, whether
// sources, Skill and target are what they should be, for a caller who may create the
// task: what is there is nobody else's business. The first fault in the order of
// B.3 is told, whichever answer came first.
func (a *API) checkContent(ctx context.Context, info *httpapi.Info, runtime *v1alpha1.AgentRuntime, request viking.Canonical) error {
	content, err := a.runtimes.Content(ctx, runtime, info.Caller)
	if err != nil {
		return contentError(err)
	}
	if content == nil {
		return nil
	}
	if err := a.requireCreate(ctx, info, runtime.Name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.limits.ContentCheck)
	defer cancel()
	who := contentstore.Principal{Account: info.Namespace, User: viking.UserID(info.Caller.User.Username)}
	all := lookups(request)
	faults := make([]error, len(all))
	slots := make(chan struct{}, maxLookups)
	var pending sync.WaitGroup
	for i, one := range all {
		slots <- struct{}{}
		pending.Go(func() {
			defer func() { <-slots }()
			faults[i] = one.check(ctx, content, who)
		})
	}
	pending.Wait()
	for _, fault := range faults {
		if fault != nil {
			return fault
		}
	}
	return nil
}

func (l lookup) check(ctx context.Context, content Content, who contentstore.Principal) error {
	uri, fault := viking.Parse(l.kind, l.uri)
	if fault != nil {
		return fmt.Errorf("parse canonical URI: %w", fault)
	}
	info, err := content.Stat(ctx, who, uri)
	switch {
	case err == nil && info.Dir == l.file:
		return wire.Errorf(wire.CodeInvalidArgument, "%s", l.wrong)
	case err == nil, contentstore.IsNotFound(err) && l.optional:
		return nil
	case contentstore.IsNotFound(err):
		return wire.NotFound("Not found: "+l.uri, l.uri, l.kind)
	case contentstore.IsDenied(err):
		return &wire.Error{
			Code: wire.CodePermissionDenied, Message: "Access denied: " + l.uri,
			Details: map[string]any{"resource": l.uri, "type": l.kind},
		}
	case contentstore.IsInvalid(err):
		return wire.Errorf(wire.CodeInvalidArgument, "%s", l.wrong)
	}
	return contentError(err)
}

// contentError is what a store that did not look anything up tells. What it said
// itself may name its machine, and is for the log.
func contentError(err error) error {
	if contentstore.IsUnauthenticated(err) {
		return told(wire.Errorf(wire.CodeUnauthenticated,
			"the content store needs an OpenViking key of yours: use an API key that was created with one to forward"), "ask the content store", err)
	}
	unavailable := wire.Unavailable("sources, Skill and target can't be checked now; try again later", serviceContent, "unavailable")
	unavailable.RetryAfter = retryDefault
	return told(unavailable, "ask the content store", err)
}
