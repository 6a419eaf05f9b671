-- Every key name of a shard, in one place; keys.rs says what each key holds.
-- KEYS[1] is the shard's prefix, `wg:{NN}:`: a name on the shard's slot, so a Cluster would route by it.
local P = KEYS[1]
local WAKE = 'wg:wake'
local K = {
  list = function(side, lane) return P .. side .. ':' .. lane end,
  ready = function(side) return P .. side .. ':ready' end,
  ready_push = P .. 'out:ready_push',
  leases = function(side) return P .. side .. ':leases' end,
  holders = function(side) return P .. side .. ':holders' end,
  parked = P .. 'out:parked',
  tries = P .. 'out:tries',
  ahead = P .. 'out:ahead',
  mark = function(key) return P .. 'seen:' .. key end,
  finished = P .. 'in:finished',
  session = function(name) return P .. 'session:' .. name end,
  rate = function(key) return P .. 'rate:' .. key:match('^(.*):') end,
  told = function(key) return P .. 'rate:told:' .. key:match('^(.*):') end,
  chats = P .. 'chats',
  chat = function(lane) return P .. 'chat:' .. lane end,
  pace = function(lane) return P .. 'pace:' .. lane end,
  late = function(request_id) return P .. 'late:' .. request_id end,
  op = function(delivery) return P .. 'op:' .. delivery end,
  push = function(task) return P .. 'push:' .. task end,
  waiting = P .. 'waiting',
  recounted = P .. 'waiting:recounted',
  journal = P .. 'journal',
  trimmed = P .. 'journal:base',
}
