package trainer

import "github.com/seed-7c27e6b8/whale/trainer/checkpoint"

// span is a range of an arena, in floats.
type span struct{ at, n int }

// named is one tensor of the files and its place in the arena.
type named struct {
	checkpoint.Tensor
	span
}

// layer is the place of one layer's weights.
type layer struct {
	norm1  span  // [D]
	mixer  mixer // what mixes tokens, with its weights
	width  int   // of the mixer's output
	out    span  // [D, width]
	norm2  span  // [D]
	gateUp span  // [2I, D]: gate_proj, up_proj, adjacent
	down   span  // [D, I]
}

// layout says where each tensor lies in an arena. Weights, gradient and both moments are
// arenas of the same layout; the gaps between tensors hold zeros in all four and stay so.
type layout struct {
	tensors     []named // in the order of the file
	layers      []layer
	embed, norm span
	head        span // the embedding when tied
	size        int  // floats
}

// align is the distance in floats that fused products start at multiples of: one cache line.
const align = 16

func newLayout(c checkpoint.Config) layout {
	var l layout
	at := map[string]span{}
	joined := map[string]bool{}
	for i := range c.Layers {
		for _, part := range []string{"self_attn.k_proj", "self_attn.v_proj", "mlp.up_proj"} {
			joined[checkpoint.LayerName(i, part)] = true
		}
	}
	for _, t := range c.Tensors() {
		if !joined[t.Name] {
			l.size = (l.size + align - 1) / align * align
		}
		s := span{l.size, t.Elements()}
		l.size += s.n
		l.tensors = append(l.tensors, named{t, s})
		at[t.Name] = s
	}
	for i := range c.Layers {
		part := func(name string) span { return at[checkpoint.LayerName(i, name)] }
		mix, width := newMixer(c, i, part)
		l.layers = append(l.layers, layer{
			norm1:  part("input_layernorm"),
			mixer:  mix,
			width:  width,
			out:    part("self_attn.o_proj"),
			norm2:  part("post_attention_layernorm"),
			gateUp: join(part("mlp.gate_proj"), part("mlp.up_proj")),
			down:   part("mlp.down_proj"),
		})
	}
	l.embed, l.norm, l.head = at[checkpoint.EmbedName], at[checkpoint.NormName], at[checkpoint.HeadName]
	if c.Tied {
		l.head = l.embed
	}
	return l
}

// join covers the first to the last of adjacent spans.
func join(first, last span) span { return span{first.at, last.at + last.n - first.at} }
