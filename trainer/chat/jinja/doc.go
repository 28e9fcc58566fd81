// Package jinja renders the part of the Jinja2 language that chat templates are
// written in, as the reference library sets it up: trim_blocks, lstrip_blocks,
// no autoescape, loop controls, tojson without HTML escapes, raise_exception.
//
//	template, err := jinja.Compile(source)
//	text, err := template.Render(variables)
//
// Values follow Python: order of dicts, None against undefined, True as an
// integer, printing of lists and floats, floor division. A template is foreign
// input: nesting, steps and bytes are bounded, nothing outside the variables can
// be reached, and whatever is not done here is refused by name with
// ErrUnsupported, statements, filters and tests already by Compile.
//
// It may not know chats, tokens or models.
//
// Not covered: inheritance, include and import, call and filter blocks, recursive
// loops, string formatting with %, integers beyond 64 bits, line statements,
// HTML escaping. strftime_now is undefined, so that templates that ask for it
// politely print the same day every day.
package jinja
