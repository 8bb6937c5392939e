import { createHash } from 'node:crypto';

/** A Lua script. Redis runs it as one: nobody sees a state in between. */
export interface Script {
  readonly body: string;
  readonly sha: string;
}

const script = (body: string): Script => ({ body, sha: createHash('sha1').update(body).digest('hex') });

/**
 * A counter of requests. KEYS: the counter. ARGV: how much to add, and after how many milliseconds it is forgotten.
 * Answers what it is now, and how many milliseconds are left.
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
 * Rows and position of one partition. KEYS: the position, an owner's plants, the parked owners. ARGV: the least score,
 * how many, the owner. Nothing if the copy does not have that partition (any more); otherwise one text, since that costs
 * the caller half of what an array of rows does: the position, a space and where the owner is parked (if so), a line
 * end, and the members one after the other.
 */
export const LIST = script(`
local position = redis.call('GET', KEYS[1])
if not position then return false end
local parked = redis.call('HGET', KEYS[3], ARGV[3])
return position .. (parked and ' ' .. parked or '') .. '\\n' ..
  table.concat(redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], '+inf', 'LIMIT', 0, ARGV[2]))
`);

/** As LIST, with the score behind each member, as an array: for verification, which is not to be fooled by a score. */
export const PAGE = script(`
local position = redis.call('GET', KEYS[1])
if not position then return false end
local parked = redis.call('HGET', KEYS[3], ARGV[3])
return {position .. (parked and ' ' .. parked or ''),
  redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])}
`);

/** Positions have one length, but for the start, which is empty. Lua's own < would follow the server's language. */
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

/**
 * A partition's hash of parked owners: the field # holds how many there are, #kept keeps it, every other one is an encoded owner. Its
 * value is `applied|missed|` and JSON: see ParkedOwner. Changes of the owner may have been left out up to `missed`.
 */
const PARKED = `
local function parkedAs(owner)
  local text = redis.call('HGET', KEYS[2], owner)
  if not text then return nil end
  return text:match('^([^|]*)|([^|]*)|(.*)$')
end
`;

/**
 * What happened in one partition. KEYS: the position, the parked owners, then plants of owners. ARGV: from, upTo, the
 * number of refused events; for each of these its owner, its position, the position before it, and JSON; for each plant
 * that has changed in between which key, the id, the position, and the new member or nothing. Answers the position
 * afterwards.
 *
 * The first write may be refused (memory, a full disk) and must therefore change nothing; all further ones of a
 * script are let through. The position moves last: where a row cannot be written, the batch comes again.
 */
export const APPLY = script(`${BEFORE}${PARKED}
local stored = redis.call('GET', KEYS[1])
local position, upTo = stored or '', ARGV[2]
if before(position, ARGV[1]) or stored and not before(position, upTo) then return position end
redis.call('SET', KEYS[1], position)
local refused, overlaps = tonumber(ARGV[3]), position ~= ARGV[1]
local lookForParked = refused > 0 or redis.call('HGET', KEYS[2], '#')
local since, missed = {}, {}
local function parkedSince(owner)
  if since[owner] == nil then since[owner] = parkedAs(owner) and '' or false end
  return since[owner]
end
local first = 4
for _ = 1, refused do
  local owner, at = ARGV[first], ARGV[first + 1]
  if before(position, at) then
    if parkedSince(owner) then missed[owner] = true
    else
      since[owner] = at
      redis.call('HSET', KEYS[2], owner, ARGV[first + 2] .. '|' .. at .. '|' .. ARGV[first + 3])
      redis.call('HINCRBY', KEYS[2], '#', 1)
    end
  end
  first = first + 4
end
for i = first, #ARGV, 4 do
  local plants, id, at, member = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local new = not overlaps or before(position, at)
  if new and lookForParked then
    local owner = plants:match(':owner:(.*)$')
    local from = parkedSince(owner)
    if from and before(from, at) then new, missed[owner] = false, true end
  end
  if new then
    redis.call('ZREMRANGEBYSCORE', plants, id, id)
    if member ~= '' then redis.call('ZADD', plants, id, member) end
  end
end
for owner in pairs(missed) do
  local applied, _, event = parkedAs(owner)
  redis.call('HSET', KEYS[2], owner, applied .. '|' .. upTo .. '|' .. event)
end
redis.call('SET', KEYS[1], upTo)
return upTo
`);

/**
 * A step of healing a parked owner. KEYS: the position, the parked owners, the owner's plants. ARGV: the owner, from,
 * upTo, where the partition must stand at least, what becomes of the owner (answered, parked, or the JSON of the next
 * refused event), then for each plant that has changed the id, and the new member or nothing. Answers whether it was done.
 */
export const HEAL = script(`${BEFORE}${PARKED}
local owner, upTo, becomes = ARGV[1], ARGV[3], ARGV[5]
local position = redis.call('GET', KEYS[1])
local applied, missed, event = parkedAs(owner)
if not position or applied ~= ARGV[2] or before(position, ARGV[4]) then return 0 end
if becomes == 'answered' and before(upTo, missed) then return 0 end
redis.call('SET', KEYS[1], position)
for i = 6, #ARGV, 2 do
  redis.call('ZREMRANGEBYSCORE', KEYS[3], ARGV[i], ARGV[i])
  if ARGV[i + 1] ~= '' then redis.call('ZADD', KEYS[3], ARGV[i], ARGV[i + 1]) end
end
if becomes == 'answered' then
  redis.call('HDEL', KEYS[2], owner)
  if redis.call('HINCRBY', KEYS[2], '#', -1) < 1 then redis.call('HDEL', KEYS[2], '#') end
elseif becomes == 'parked' then
  redis.call('HSET', KEYS[2], owner, upTo .. '|' .. missed .. '|' .. event)
else
  if before(missed, ARGV[4]) then missed = ARGV[4] end
  redis.call('HSET', KEYS[2], owner, upTo .. '|' .. missed .. '|' .. becomes)
end
return 1
`);

/**
 * A new copy. KEYS: the hash of generations. ARGV: the log's identity, a random suffix. Answers its number.
 *
 * The hash has the fields: log, its identity, for people; last, the highest number that was given; for each copy
 * its number, with the copy's name; and active, with the name of the copy that lists are answered from.
 */
export const CREATE = script(`
local number = string.format('%d', redis.call('HINCRBY', KEYS[1], 'last', 1))
redis.call('HSET', KEYS[1], 'log', ARGV[1], number, number .. '-' .. ARGV[2])
return number
`);

/**
 * KEYS: the hash of generations. ARGV: a number, its copy, and the copy that was active when they were compared,
 * or nothing.
 */
export const PROMOTE = script(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 'missing' end
if (redis.call('HGET', KEYS[1], 'active') or '') ~= ARGV[3] then return 'moved' end
redis.call('HSET', KEYS[1], 'active', ARGV[2])
return 'promoted'
`);

/** KEYS: the hash of generations. ARGV: a number. From then on the copy is nobody's. */
export const DROP = script(`
local copy = redis.call('HGET', KEYS[1], ARGV[1])
if copy and copy == redis.call('HGET', KEYS[1], 'active') then return 'active' end
redis.call('HDEL', KEYS[1], ARGV[1])
return 'dropped'
`);

/** KEYS: the lease. ARGV: who wants it, for how many milliseconds. */
export const TAKE_LEASE = script(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`);

/** KEYS: the lease. ARGV: who gives it back. */
export const RETURN_LEASE = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);

/**
 * KEYS: the hash of reports. A field is a process, and its value until when it holds, in milliseconds by the
 * server's clock, a colon, and the text. What does not hold any more is removed by whoever comes next.
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

/** KEYS: the hash of reports. ARGV: a process, its text, for how many milliseconds it holds. */
export const REPORT = script(`${HOLDING_REPORTS}
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', now + ARGV[3]) .. ':' .. ARGV[2])
return 1
`);

/** KEYS: the hash of reports. Answers pairs of process and text. */
export const REPORTS = script(`${HOLDING_REPORTS}
return holding
`);

/** Does nothing with its key, which shows that scripts may be run. */
export const PROBE = script('return 1');
