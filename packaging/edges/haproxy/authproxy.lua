-- authproxy behind HAProxy, forward-auth: asks authproxy whether a request may pass, and puts into it who asks.
--
--   global
--     setenv AUTHPROXY_CHECKS 127.0.0.1:9090        # forwardAuth.listenAddress; unix@/run/authproxy/app-auth.sock for a socket
--     lua-load /etc/haproxy/authproxy.lua
--   frontend
--     http-request lua.authproxy_check
--
-- The action sets txn.authproxy to `allowed`, `denied` or `failed`; the configuration decides what comes of it, and what is not `allowed` must
-- not reach the application. Needs HAProxy 2.6 or newer.
local address = assert(os.getenv("AUTHPROXY_CHECKS"), "setenv AUTHPROXY_CHECKS is missing")
local secretFile = os.getenv("AUTHPROXY_SECRET_FILE")
local secret
if secretFile ~= nil then
  local file = assert(io.open(secretFile))
  secret = file:read("l")
  file:close()
end

-- Fields that belong to one connection, or to the content, which a check does not have.
local notAsked = {
  ["connection"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true,
  ["transfer-encoding"] = true, ["content-length"] = true, ["expect"] = true, ["host"] = true,
  ["x-original-method"] = true, ["x-original-uri"] = true, ["x-original-host"] = true, ["x-forwarded-for"] = true,
  ["x-authproxy-edge-secret"] = true,
}

-- Fields of an answer that are for HAProxy alone. All others tell the application who asks, those of identity.attributes too.
local notTold = {
  ["connection"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true, ["content-length"] = true, ["date"] = true,
  ["cache-control"] = true, ["vary"] = true,
}

-- Fields of this family that are questions to authproxy.
local questions = { ["x-authproxy-authorization"] = true, ["x-authproxy-probe"] = true }

-- Fields of a client in which an application could read who asks, whatever this instance sends.
local families = { "x authproxy ", "remote user", "remote groups", "remote name", "remote email", "x auth request ", "x webauth " }

-- Whether an application could read a field as one of those: letters and digits count, whatever stands between them.
local function tellsIdentity(name)
  local words = name:lower():gsub("[^a-z0-9]+", " "):gsub("^ ", "")
  for _, family in ipairs(families) do
    if (words .. " "):sub(1, #family) == family then return true end
  end
  return false
end

local function values(list)
  local found, index = {}, 0
  while list[index] ~= nil do
    found[#found + 1] = list[index]
    index = index + 1
  end
  return found
end

core.register_action("authproxy_check", { "http-req" }, function(txn)
  txn:set_var("txn.authproxy", "failed")
  local came = txn.http:req_get_headers()
  local asked = {}
  for name, list in pairs(came) do
    if questions[name] or not (notAsked[name] or tellsIdentity(name)) then asked[name] = values(list) end
  end
  -- The method, the path as the client wrote it, and the host: HAProxy's own words, one of each.
  local host = came["host"] and values(came["host"]) or {}
  asked["host"] = host
  asked["x-original-method"] = { txn.f:method() }
  asked["x-original-uri"] = { txn.f:pathq() }
  asked["x-original-host"] = host
  asked["x-forwarded-for"] = { txn.f:src() }
  if secret ~= nil then asked["x-authproxy-edge-secret"] = { secret } end

  local client = core.httpclient()
  local socket = address:match("^unix@")
  local answer = client:get({
    url = socket and "http://127.0.0.1/check" or ("http://" .. address .. "/check"),
    dst = socket and address or nil,
    headers = asked,
    -- Milliseconds. HAProxy asks four times before it says that there is no answer.
    timeout = 3000,
  })
  if answer == nil then return end
  if answer.status == 401 or answer.status == 403 then
    txn:set_var("txn.authproxy", "denied")
    return
  end
  if answer.status ~= 200 then return end

  -- Who asks, and the cookies without those of authproxy, come from the answer alone.
  local told = {}
  for name, list in pairs(answer.headers) do
    if not notTold[name] then told[name] = list end
  end
  for name in pairs(came) do
    if tellsIdentity(name) or told[name] ~= nil or name == "cookie" then txn.http:req_del_header(name) end
  end
  for name, list in pairs(told) do
    for _, value in ipairs(values(list)) do
      if value ~= "" then txn.http:req_add_header(name, value) end
    end
  end
  txn:set_var("txn.authproxy", "allowed")
end)
