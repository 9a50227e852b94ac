package compile

import (
	"context"
	"time"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// The stages of a run (F.2), without the wire's prefix.
const (
	stageLoadingSkill      = "loading_skill"
	stageCollectingContext = "collecting_context"
	stageAgent             = "agent"
	stageRendering         = "rendering"
	stageWriting           = "writing"
	stageCompleted         = "completed"
)

// Engine does compile tasks with a store and a compiler. It is safe for concurrent
// use; two runs for the same target conflict when both write, so a server runs
// them one after the other (F.6).
type Engine struct {
	store    contentstore.Store
	compiler Compiler
	limits   Limits
	now      func() time.Time
}

var _ runtime.Engine = (*Engine)(nil)

// Option changes an engine that is being made.
type Option func(*Engine)

// WithLimits replaces DefaultLimits.
func WithLimits(limits Limits) Option { return func(e *Engine) { e.limits = limits } }

// WithClock replaces the clock that path variables are expanded by (G.2).
func WithClock(now func() time.Time) Option { return func(e *Engine) { e.now = now } }

// NewEngine returns an engine that reads and writes store and has compiler make the
// output.
func NewEngine(store contentstore.Store, compiler Compiler, options ...Option) *Engine {
	e := &Engine{
		store: store, compiler: compiler, limits: DefaultLimits(),
		now: func() time.Time { return time.Now().UTC() },
	}
	for _, option := range options {
		option(e)
	}
	return e
}

// taskURIs is what a task names, parsed, and for whom.
type taskURIs struct {
	who   contentstore.Principal
	from  []viking.URI
	to    viking.URI
	skill viking.URI
}

// Prepare implements [runtime.Engine]. The target's directory is created last, so
// that a task that is refused leaves none behind (F.6).
func (e *Engine) Prepare(ctx context.Context, task runtime.Task) (runtime.Task, error) {
	request := viking.Request{From: task.From, To: task.To, Skill: task.Skill}
	canonical, faults := viking.Canonicalize(request, viking.Caller{User: task.Principal.User}, e.now())
	if fault := viking.First(faults); fault != nil {
		return runtime.Task{}, fieldError(fault)
	}
	task.From, task.To, task.Skill = canonical.From, canonical.To, canonical.Skill
	uris, err := e.parse(task)
	if err != nil {
		return runtime.Task{}, err
	}
	if err := e.check(ctx, uris); err != nil {
		return runtime.Task{}, readError(err)
	}
	return task, nil
}

// parse reads the URIs of a task that is canonical.
func (e *Engine) parse(task runtime.Task) (taskURIs, error) {
	if len(task.From) > e.limits.SourceRoots {
		return taskURIs{}, refuse(runtimeapi.CodeResourceExhausted, "from has more than %d sources", e.limits.SourceRoots)
	}
	uris := taskURIs{who: contentstore.Principal{Account: task.Principal.Account, User: task.Principal.User}}
	var fault *viking.FieldError
	// A caller whose uid is a reserved word may name it; a plain parse may not.
	caller := viking.Caller{User: task.Principal.User}
	read := func(field, text string) viking.URI {
		u, f := caller.Parse(field, text)
		if fault == nil {
			fault = f
		}
		return u
	}
	for _, text := range task.From {
		uris.from = append(uris.from, read("from", text))
	}
	uris.to, uris.skill = read("to", task.To), read("skill", task.Skill)
	if fault != nil {
		return taskURIs{}, fieldError(fault)
	}
	return uris, nil
}

// check looks at the store as the task's user, in the order of B.3.
func (e *Engine) check(ctx context.Context, uris taskURIs) error {
	for _, uri := range uris.from {
		info, err := e.store.Stat(ctx, uris.who, uri)
		if err != nil {
			return err
		}
		if !info.Dir {
			return refuse(runtimeapi.CodeInvalidArgument, "Compile source must be a directory: %s", uri)
		}
	}
	s, err := e.readSkill(ctx, uris)
	if err != nil {
		return err
	}
	if err := e.admit(s, uris.to); err != nil {
		return err
	}
	info, err := e.store.Stat(ctx, uris.who, uris.to)
	switch {
	case contentstore.IsNotFound(err):
		return e.store.MakeDir(ctx, uris.who, uris.to)
	case err != nil:
		return err
	case !info.Dir:
		return refuse(runtimeapi.CodeInvalidArgument, "Compile target must be a directory")
	}
	return nil
}

func (e *Engine) admit(s *skill.Skill, to viking.URI) error {
	if err := s.Available(); err != nil {
		return err
	}
	if admitter, ok := e.compiler.(Admitter); ok {
		return admitter.Admit(s, to.Classify().Type)
	}
	return nil
}

// Run implements [runtime.Engine]. Everything before the stage writing only reads,
// so a run that is cancelled by then leaves nothing behind; a cancelled write stops
// between two files, each whole.
func (e *Engine) Run(ctx context.Context, task runtime.Task, progress runtime.Progress) (runtime.Outcome, error) {
	uris, err := e.parse(task)
	if err != nil {
		return runtime.Outcome{}, err
	}
	r := &run{engine: e, task: task, uris: uris}
	for _, step := range []struct {
		stage string
		do    func(context.Context) error
	}{
		{stageLoadingSkill, r.loadSkill},
		{stageCollectingContext, r.collect},
		{stageAgent, r.compile},
		{stageRendering, r.render},
		{stageWriting, r.write},
	} {
		if err := ctx.Err(); err != nil {
			return runtime.Outcome{}, err
		}
		progress(step.stage)
		if err := step.do(ctx); err != nil {
			// Reads that fail because ctx ended say so in many ways.
			if end := ctx.Err(); end != nil {
				return runtime.Outcome{}, end
			}
			return runtime.Outcome{}, err
		}
	}
	return r.outcome()
}
