-- session: what is remembered under a name.
-- ARGV: a batch of (session's name). Answers each: { turns, vars, when it was last forgotten }; the first two nil where there is none.
return each(function(session)
  return { remembered(session) }
end)
