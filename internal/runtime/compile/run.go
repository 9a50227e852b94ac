package compile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/compile/okf"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// run is one task on its way through the stages.
type run struct {
	engine *Engine
	task   runtime.Task
	uris   taskURIs

	// ws is filled by loadSkill and collect.
	ws Workspace
	// bundle is what compile made, checked by render.
	bundle *Bundle
	// changed are the bundle's files that differ from the target; filled by render.
	changed  []OutputFile
	result   result
	warnings []string
}

// result is the JSON of section F.4.
type result struct {
	From       []string `json:"from"`
	To         string   `json:"to"`
	Skill      string   `json:"skill"`
	OKFVersion string   `json:"okf_version"`
	Created    []string `json:"created"`
	Updated    []string `json:"updated"`
	Unchanged  []string `json:"unchanged"`
	PageCount  int      `json:"page_count"`
	LinkCount  int      `json:"link_count"`
	Warnings   []string `json:"warnings"`
}

// warnEmpty is the warning of an empty output (F.4).
const warnEmpty = "No reliable output was produced from the supplied materials."

func (r *run) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *run) compile(ctx context.Context) error {
	bundle, err := r.engine.compiler.Compile(ctx, &r.ws)
	switch {
	case err == nil:
	case isEnd(err), hasCode(err):
		return err
	default:
		return refuse(runtimeapi.CodeInternal, "compile: %s", err)
	}
	if bundle == nil {
		bundle = &Bundle{}
	}
	r.bundle = bundle
	return nil
}

func (r *run) outcome() (runtime.Outcome, error) {
	if len(r.bundle.Files) == 0 {
		r.warn("%s", warnEmpty)
	}
	res := r.result
	res.From, res.To, res.Skill, res.OKFVersion = r.task.From, r.task.To, r.task.Skill, okf.Version
	res.LinkCount = r.bundle.LinkCount
	// The compiler's own come first: they are about all of the output.
	res.Warnings = bounded(slices.Concat(r.bundle.Warnings, r.warnings), r.engine.limits.Warnings)
	for _, list := range []*[]string{&res.Created, &res.Updated, &res.Unchanged, &res.Warnings} {
		if *list == nil {
			*list = []string{}
		}
	}
	slices.Sort(res.Created)
	slices.Sort(res.Updated)
	slices.Sort(res.Unchanged)
	body, err := json.Marshal(res)
	if err != nil {
		return runtime.Outcome{}, fmt.Errorf("encode result: %w", err)
	}
	return runtime.Outcome{Stage: stageCompleted, Result: body, Meta: r.bundle.Meta}, nil
}

func bounded(warnings []string, limit int) []string {
	if len(warnings) <= limit {
		return warnings
	}
	more := fmt.Sprintf("%d more warnings", len(warnings)-limit)
	return append(warnings[:limit:limit], more)
}
