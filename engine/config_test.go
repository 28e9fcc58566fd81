package engine

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// leaves calls f with every single setting, by its path, as a value that can be set.
func leaves(v reflect.Value, path string, f func(path string, leaf reflect.Value)) {
	for i := range v.NumField() {
		name := path + v.Type().Field(i).Name
		if field := v.Field(i); field.Kind() == reflect.Struct {
			leaves(field, name+".", f)
		} else {
			f(name, field)
		}
	}
}

// A run can't go on with any other setting than its own, but for those that change no result,
// and for a budget, which may grow. Whoever adds a setting has to decide which it is.
func TestConfig_same(t *testing.T) {
	free := map[string]bool{"Data": true, "InFlight": true, "TokensInFlight": true, "Retries": true, "SaveEvery": true,
		"Services.Retriever": true, "Services.Judge": true, "Services.Policy": true, // addresses
		"Cycles": true, "Rollouts": true, // more of them
		"PolicyGradient.Clip": true, "PolicyGradient.Beta": true} // not read by rsft
	there := Defaults()
	seen := 0
	here := there
	leaves(reflect.ValueOf(&here).Elem(), "", func(path string, leaf reflect.Value) {
		before := reflect.ValueOf(leaf.Interface())
		switch leaf.Kind() {
		case reflect.String:
			leaf.SetString(leaf.String() + "x")
		case reflect.Bool:
			leaf.SetBool(!leaf.Bool())
		case reflect.Int, reflect.Int64:
			leaf.SetInt(leaf.Int() + 1)
		case reflect.Uint64:
			leaf.SetUint(leaf.Uint() + 1)
		case reflect.Float64:
			leaf.SetFloat(leaf.Float() + .125)
		default:
			t.Fatalf("%s is a %s", path, leaf.Kind())
		}
		err := there.Same(here)
		if may := free[path] || strings.HasPrefix(path, "Proposing."); may != (err == nil) || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("another %s: %v, may change: %v", path, err, may)
		}
		leaf.Set(before)
		seen++
	})
	if seen < 50 || there.Same(here) != nil {
		t.Errorf("%d settings, back as it was: %v", seen, there.Same(here))
	}
}

// A budget can only grow: what was run stays part of it.
func TestConfig_sameBudget(t *testing.T) {
	set := func(cycles, rollouts int, stopAt float64) Config {
		c := Defaults()
		c.Cycles, c.Rollouts, c.StopAt = cycles, rollouts, stopAt
		return c
	}
	there := set(4, 100, .5)
	for name, c := range map[string]struct {
		here Config
		may  bool
	}{
		"the same":      {set(4, 100, .5), true},
		"more cycles":   {set(5, 100, .5), true},
		"fewer cycles":  {set(3, 100, .5), false},
		"more rollouts": {set(4, 101, .5), true},
		"fewer":         {set(4, 99, .5), false},
		"later":         {set(4, 100, .6), true},
		"never":         {set(4, 100, 0), true},
		"earlier":       {set(4, 100, .4), false},
	} {
		if err := there.Same(c.here); (err == nil) != c.may {
			t.Errorf("%s: %v", name, err)
		}
	}
	if set(4, 100, 0).Same(there) == nil {
		t.Error("a run that never stops early may stop at .5")
	}
	gradient := Defaults()
	gradient.Update = "policy-gradient"
	other := gradient
	if other.PolicyGradient.Beta++; gradient.Same(other) == nil {
		t.Error("another beta of the policy gradient in use")
	}
}
