package compile

import (
	"context"
	"io"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/runtime/compile/skill"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// readSkill reads and parses a Skill's SKILL.md.
func (e *Engine) readSkill(ctx context.Context, uris taskURIs) (*skill.Skill, error) {
	info, err := e.store.Stat(ctx, uris.who, uris.skill)
	if err != nil {
		return nil, err
	}
	if !info.Dir {
		return nil, refuse(runtimeapi.CodeInvalidArgument, "skill must resolve to a Skill directory or SKILL.md")
	}
	uri, err := uris.skill.Join(viking.SkillFile)
	if err != nil {
		return nil, err
	}
	info, err = e.store.Stat(ctx, uris.who, uri)
	if err != nil {
		return nil, err
	}
	if info.Dir {
		return nil, refuse(runtimeapi.CodeInvalidArgument, "Skill directory must contain a SKILL.md file")
	}
	content, err := e.store.Read(ctx, uris.who, uri, e.limits.SkillFileBytes)
	if err != nil {
		return nil, err
	}
	return skill.Parse(content)
}

// loadSkill is the stage loading_skill. The Skill is read again, for it may have
// changed while the task waited.
func (r *run) loadSkill(ctx context.Context) error {
	e := r.engine
	s, err := e.readSkill(ctx, r.uris)
	if err != nil {
		return readError(err)
	}
	if err := e.admit(s, r.uris.to); err != nil {
		return readError(err)
	}
	listing, err := e.store.List(ctx, r.uris.who, r.uris.skill, listLimit)
	if err != nil {
		return readError(err)
	}
	files := r.files(listing)
	var total int64
	for _, file := range files {
		total += file.Size
		if file.Size > e.limits.SkillFileBytes {
			return refuse(runtimeapi.CodeResourceExhausted, "Skill file %s is larger than %d bytes", file.Path, e.limits.SkillFileBytes)
		}
	}
	if listing.Truncated || len(files) > e.limits.SkillFiles {
		return refuse(runtimeapi.CodeResourceExhausted, "Skill has more than %d files", e.limits.SkillFiles)
	}
	if total > e.limits.SkillBytes {
		return refuse(runtimeapi.CodeResourceExhausted, "Skill is larger than %d bytes", e.limits.SkillBytes)
	}
	r.ws.Skill, r.ws.SkillFiles = s, files
	r.ws.Instruction, r.ws.ModelName = r.task.Instruction, r.task.ModelName
	if r.ws.Instruction == "" {
		r.ws.Instruction = DefaultInstruction
	}
	r.ws.To, r.ws.TargetType = r.task.To, r.uris.to.Classify().Type
	return nil
}

// files turns a listing into files that can be read as the task's user.
func (r *run) files(listing contentstore.Listing) []File {
	var files []File
	for _, entry := range listing.Entries {
		if entry.Dir {
			continue
		}
		files = append(files, File{URI: entry.URI, Path: entry.Path, Size: entry.Size, Open: r.opener(entry.URI)})
	}
	return files
}

func (r *run) opener(text string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		uri, fault := viking.Caller{User: r.task.Principal.User}.Parse("uri", text)
		if fault != nil {
			return nil, fault
		}
		return r.engine.store.Open(ctx, r.uris.who, uri)
	}
}
