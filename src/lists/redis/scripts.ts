import { createHash } from 'node:crypto';

/** A Lua script, which Redis runs atomically. */
export interface Script {
  readonly body: string;
  readonly sha: string;
}

const script = (body: string): Script => ({ body, sha: createHash('sha1').update(body).digest('hex') });

/**
 * A counter of requests. KEYS: the counter. ARGV: the amount to add, its lifetime in milliseconds. Returns the total,
 * and the milliseconds that are left.
 */
export const COUNT = script(`
local total = redis.call('INCRBY', KEYS[1], ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = tonumber(ARGV[2])
end
return {total, left}
`);

/**
 * Rows and anchor of one partition. KEYS: the anchor, an owner's plants, the blocked owners. ARGV: the least score, the
 * limit, the owner. Returns nothing where the generation lacks the partition; else one text, which takes the caller half
 * the time of an array: the anchor, a tab and the blocked owner (if so), a line end, and the members one after the other.
 */
export const LIST = script(`
local anchor = redis.call('GET', KEYS[1])
if not anchor then return false end
local blocked = redis.call('HGET', KEYS[3], ARGV[3])
return anchor .. (blocked and '\\t' .. blocked or '') .. '\\n' ..
  table.concat(redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], '+inf', 'LIMIT', 0, ARGV[2]))
`);

/** As LIST, as an array with the scores: verification compares them with the members. */
export const PAGE = script(`
local anchor = redis.call('GET', KEYS[1])
if not anchor then return false end
local blocked = redis.call('HGET', KEYS[3], ARGV[3])
return {anchor .. (blocked and '\\t' .. blocked or ''),
  redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])}
`);

/** Positions have one length, except the empty start. Lua's own < depends on the server's locale. */
const BEFORE = `
local function before(a, b)
  if #a ~= #b then return #a < #b end
  for i = 1, #a do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return false
end
`;

/** The position of an anchor. */
const POSITION_OF = `
local function positionOf(anchor) return anchor:match('^[^ ]*') end
`;

/**
 * Applies changes to one partition. KEYS: the anchor, the blocked owners, then plants of owners. ARGV: from, the anchor
 * afterwards, the number of refused events; for each of these its owner, its position, and its text; for each changed
 * plant the number of its key, the id, the position, and the new member or nothing. Returns the position afterwards, or
 * nothing where the generation lacks the partition.
 * The hash of blocked owners: the field # holds their number, #kept keeps the hash in existence, each other field is an
 * encoded owner.
 * The first write may be refused (memory, a full disk) and must change nothing; further ones of a script are not
 * refused. The anchor is set last: where a row cannot be written, the batch is applied again.
 */
export const APPLY = script(`${BEFORE}${POSITION_OF}
local stored = redis.call('GET', KEYS[1])
if not stored then return false end
local position, upTo = positionOf(stored), positionOf(ARGV[2])
if before(position, ARGV[1]) or not before(position, upTo) then return position end
redis.call('SET', KEYS[1], stored)
local refused, overlaps = tonumber(ARGV[3]), position ~= ARGV[1]
local lookForBlocked = refused > 0 or redis.call('HGET', KEYS[2], '#')
local since = {}
local function blockedSince(owner)
  if since[owner] == nil then since[owner] = redis.call('HGET', KEYS[2], owner) and '' or false end
  return since[owner]
end
local first = 4
for _ = 1, refused do
  local owner, at = ARGV[first], ARGV[first + 1]
  if before(position, at) and not blockedSince(owner) then
    since[owner] = at
    redis.call('HSET', KEYS[2], owner, ARGV[first + 2])
    redis.call('HINCRBY', KEYS[2], '#', 1)
  end
  first = first + 3
end
for i = first, #ARGV, 4 do
  local plants, id, at, member = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local new = not overlaps or before(position, at)
  if new and lookForBlocked then
    local from = blockedSince(plants:match(':owner:(.*)$'))
    new = not (from and before(from, at))
  end
  if new then
    redis.call('ZREMRANGEBYSCORE', plants, id, id)
    if member ~= '' then redis.call('ZADD', plants, id, member) end
  end
end
redis.call('SET', KEYS[1], ARGV[2])
return upTo
`);

/**
 * Brings a blocked owner up to date. KEYS: the anchor, the blocked owners, the owner's plants. ARGV: the owner, the
 * position of the event that the owner is blocked at, the position of the partition, the text of the next refused event
 * or nothing; then for each changed plant the id, and the new member or nothing. Returns whether it was done.
 */
export const CATCH_UP = script(`${POSITION_OF}
local anchor = redis.call('GET', KEYS[1])
local blocked = redis.call('HGET', KEYS[2], ARGV[1])
if not anchor or positionOf(anchor) ~= ARGV[3] then return 0 end
if not blocked or blocked:match('^[^|]*') ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], anchor)
for i = 5, #ARGV, 2 do
  redis.call('ZREMRANGEBYSCORE', KEYS[3], ARGV[i], ARGV[i])
  if ARGV[i + 1] ~= '' then redis.call('ZADD', KEYS[3], ARGV[i], ARGV[i + 1]) end
end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
else
  redis.call('HDEL', KEYS[2], ARGV[1])
  if redis.call('HINCRBY', KEYS[2], '#', -1) < 1 then redis.call('HDEL', KEYS[2], '#') end
end
return 1
`);

/**
 * The registry of generations is a hash: log holds the log's identity, for operators; each generation is a field without
 * a value; active and replaced hold the active one and the one that was active before.
 * KEYS: the registry. ARGV: a generation, and the one that was active at the comparison, or nothing.
 */
export const PROMOTE = script(`
if not redis.call('HGET', KEYS[1], ARGV[1]) then return 'missing' end
if (redis.call('HGET', KEYS[1], 'active') or '') ~= ARGV[2] then return 'moved' end
redis.call('HSET', KEYS[1], 'active', ARGV[1])
if ARGV[2] == '' then redis.call('HDEL', KEYS[1], 'replaced')
else redis.call('HSET', KEYS[1], 'replaced', ARGV[2]) end
return 'promoted'
`);

/** KEYS: the registry. ARGV: a generation, which is not active afterwards. */
export const DEACTIVATE = script(`
if redis.call('HGET', KEYS[1], 'active') == ARGV[1] then redis.call('HDEL', KEYS[1], 'active', 'replaced') end
return 1
`);

/** KEYS: the registry. ARGV: a generation, which is removed unless it is active. */
export const DROP = script(`
if redis.call('HGET', KEYS[1], 'active') == ARGV[1] then return 'active' end
redis.call('HDEL', KEYS[1], ARGV[1])
return 'dropped'
`);

/** KEYS: the lease. ARGV: a holder, for how many milliseconds. */
export const TAKE_LEASE = script(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`);

/** KEYS: the lease. ARGV: its holder. */
export const RETURN_LEASE = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);

/**
 * KEYS: the hash of reports. A field is a process; its value is when it expires, in milliseconds of the server's clock,
 * a colon, and the text. Each script removes what has expired.
 */
const HOLDING_REPORTS = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holding = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ends, text = all[i + 1]:match('^(%d+):(.*)$')
  if ends and tonumber(ends) > now then holding[#holding + 1] = {all[i], text}
  else redis.call('HDEL', KEYS[1], all[i]) end
end
`;

/** KEYS: the hash of reports. ARGV: a process, its text, its lifetime in milliseconds. */
export const REPORT = script(`${HOLDING_REPORTS}
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', now + ARGV[3]) .. ':' .. ARGV[2])
return 1
`);

/** KEYS: the hash of reports. Returns pairs of process and text. */
export const REPORTS = script(`${HOLDING_REPORTS}
return holding
`);

/** Does nothing: tests whether scripts may be run. */
export const PROBE = script('return 1');
