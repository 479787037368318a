# frozen_string_literal: true

require "spec_helper"
require "json"
require "plock/cli/doctor/connection"
require "plock/cli/doctor/rights"
require "plock/cli/doctor/server"
require "support/command_line"
require "support/documents"

RSpec.describe "plock doctor", needs: "redis-server" do
  include Support::CommandLine

  safe = { "appendonly" => "yes", "appendfsync" => "always" }

  # Runs plock doctor. Returns its findings as a Hash by check, and its exit status.
  def examine(url, *options, env: {})
    env = { "PLOCK_URL" => url, "PLOCK_SECRET" => "sixteen bytes and more" }.merge(env)
    output, errors, status = plock("doctor", "--json", *options, env: env)
    expect(errors.lines.grep_v(/without verifying its certificate/)).to be_empty
    told = JSON.parse(output)
    expect(told["sound"]).to be status.exitstatus.zero?
    [told["findings"].to_h { |finding| [finding["check"], finding] }, status.exitstatus]
  end

  def level(findings, check) = findings.fetch(check)["level"]

  let(:server) { redis_server(config: safe) }

  it "exits with 0 for a server that keeps its promises" do
    server.call("ACL", "SETUSER", "default", "resetkeys", "~plock:*", "-flushall")
    findings, status = examine(server.unix_url)
    expect(findings.values.reject { |finding| finding["level"] == "fine" }).to be_empty
    expect(status).to eq 0
    expect(findings["version"]["message"]).to match(/\A(Redis|Valkey) \d/)
    expect(findings["trial"]["message"]).to match(/handed over in [\d.]+ ms/)
    expect(server.call("KEYS", "plock:v1:*")).to be_empty
  end

  it "prints a line for each finding, and its remedy" do
    server.call("CONFIG", "SET", "appendonly", "no")
    output, errors, status = plock("doctor", env: { "PLOCK_URL" => server.unix_url })
    expect([errors, status.exitstatus]).to eq ["", 1]
    expect(output.lines.first).to eq "#{server.unix_url}\n"
    expect(output).to match(/^  ok       version: /)
    expect(output).to match(
      /^  DANGER   persistence: .*restart.*\n           .*CONFIG SET appendonly yes/
    )
    expect(output).to match(/^  advice   secret: .*\n           set PLOCK_SECRET/)
    expect(output).not_to include "\e"
  end

  it "accepts known findings" do
    server.call("CONFIG", "SET", "appendonly", "no")
    findings, status = examine(server.unix_url, "--accept", "persistence,replication")
    expect([findings["persistence"].slice("level", "accepted"), status]).to eq [
      { "level" => "danger", "accepted" => true },
      0
    ]
    expect(
      plock(
        "doctor",
        "--accept",
        "persistance",
        env: {
          "PLOCK_URL" => server.unix_url
        }
      ).last.exitstatus
    ).to eq 64
  end

  memory = { "maxmemory" => "64mb" }

  {
    "a policy that drops locks" => [
      memory.merge("maxmemory-policy" => "allkeys-lru"),
      "eviction", "danger", /allkeys-lru.*dropped/, /noeviction/
    ],
    "a policy that drops keys with a time to live, as locks have" => [
      memory.merge("maxmemory-policy" => "volatile-ttl"),
      "eviction", "danger", /volatile-ttl/, /noeviction/
    ],
    "such a policy without a limit" => [
      { "maxmemory" => "0", "maxmemory-policy" => "allkeys-lru" },
      "eviction", "advice", /no limit/, /noeviction/
    ],
    "a limit, and a policy that drops nothing" => [
      memory.merge("maxmemory-policy" => "noeviction"),
      "eviction", "fine", /noeviction, \d+ %/, nil
    ],
    "memory that is nearly full" => [
      { "maxmemory" => "512kb", "maxmemory-policy" => "noeviction" },
      "eviction", "advice", /no lock is granted/, /raise maxmemory/
    ],
    "a file that is written out every second" => [
      { "appendfsync" => "everysec" },
      "persistence", "danger", /everysec/, /appendfsync always/
    ],
    "no file" => [
      { "appendonly" => "no" },
      "persistence", "danger", /restart forgets/, /fences/
    ],
    "few clients" => [
      { "maxclients" => "4" },
      "descriptors", "advice", /of 4 clients/, /raise maxclients/
    ]
  }.each do |what, (settings, check, level, message, remedy)|
    it "sees #{what}" do
      server.call("CONFIG", "SET", *settings.flatten)
      finding = examine(server.unix_url).first.fetch(check)
      expect(finding).to match(
        a_hash_including("level" => level, "message" => message, "remedy" => remedy)
      )
    end
  end

  it "sees replicas" do
    redis_server(config: { "replicaof" => ["127.0.0.1", server.port.to_s] })
    eventually(10) { server.call("INFO", "replication").include?("connected_slaves:1") }
    findings, status = examine(server.unix_url)
    expect(findings["role"]).to include("level" => "fine", "message" => "a primary of 1 replica")
    expect(findings["replication"]).to match(
      a_hash_including("level" => "danger", "message" => /1 replica,.*may not know/)
    )
    expect(status).to eq 1
    { 1 => ["fine", /1, and each lock waits/], 2 => ["danger", /but 1 are connected/] }
      .each do |number, (level, message)|
      findings, = examine(server.unix_url("replicas=#{number}"))
      expect(findings["replication"]).to include("level" => level, "message" => message)
    end
    server.call("ACL", "SETUSER", "no_wait", "on", ">pw", "~*", "&*", "+@all", "-wait")
    url = server.unix_url("replicas=1", user: "no_wait", password: "pw")
    expect(examine(url).first["trial"]).to include("remedy" => / \+wait\z/)
  end

  it "sees that the server is a replica itself, and says what that means" do
    findings, status = examine(redis_server(:replica).unix_url)
    expect(findings["role"]).to match(
      a_hash_including("level" => "danger", "remedy" => /name the primary, 127\.0\.0\.1:1/)
    )
    expect([level(findings, "trial"), status]).to eq ["danger", 1]
  end

  it "sees a cluster" do
    _, errors, status = plock("doctor", "--store", redis_server(:cluster).unix_url)
    expect(errors).to match(/Redis Cluster: use redis\+cluster:/)
    expect(status.exitstatus).to eq 69
  end

  it "knows the mode by its name in Valkey" do
    facts = { "server_mode" => "standalone", "role" => "master" }
    store = instance_double(Plock::Store, sentinels: [])
    server = instance_double(Plock::CLI::Doctor::Server, number: 0, store: store)
    allow(server).to receive(:info) { |_section, name| facts[name] }
    expect(Plock::CLI::Doctor::Role.run(server)).to have_attributes(
      level: :fine, message: "a primary that stands alone"
    )
    facts.delete("server_mode")
    expect(Plock::CLI::Doctor::Role.run(server)).to have_attributes(
      level: :unknown, message: /mode/
    )
  end

  it "sees TLS, and whether it is worth anything" do
    certified = redis_server(:tls, cert: Support::Certificates.server, config: safe)
    expect(
      examine(certified.url("ca_file=#{Support::Certificates.ca.cert_file}")).first["tls"]
    ).to include("level" => "fine")
    expect(examine(certified.url("verify=none")).first["tls"]).to include("level" => "danger")
  end

  it "needs no more rights than locks do, and says which checks it could not make" do
    rules = Plock::CLI::Doctor::Rights::SMALLEST
    server.call("ACL", "SETUSER", "locks", "on", ">correct horse", *rules)
    findings, status = examine(server.url(user: "locks", password: "correct horse"))
    expect(status).to eq 0
    expect(findings.transform_values { |finding| finding["level"] }).to include(
      "trial" => "fine", "rights" => "fine", "clock" => "fine", "eviction" => "unknown",
      "persistence" => "unknown"
    )
    expect(findings["eviction"]["remedy"]).to match(/a user that may/)
  end

  it "recommends the rights that the documents recommend" do
    expect(Support::Documents.acl.drop(5)).to match_array(Plock::CLI::Doctor::Rights::SMALLEST)
  end

  it "sees a right that is missing, by name" do
    {
      "+publish" => /publish/i, "+subscribe" => /SUBSCRIBE/i, "+set" => /set/i
    }.each do |right, message|
      server.call(
        "ACL", "SETUSER", "locks", "reset", "on", ">correct horse",
        *(Plock::CLI::Doctor::Rights::SMALLEST - [right])
      )
      findings, status = examine(server.url(user: "locks", password: "correct horse"))
      expect([right, findings["trial"]["level"], status]).to eq [right, "danger", 1]
      expect(findings["trial"]["message"]).to match(message)
    end
  end

  it "sees rights that are not needed" do
    finding = examine(server.unix_url).first["rights"]
    expect(finding["level"]).to eq "advice"
    expect(finding["message"]).to match(
      /default may, without a password, use all commands and all keys/
    )
  end

  it "names the right to use a database other than 0 if the store is in one" do
    { [] => false, ["db=0"] => false, ["db=1"] => true }.each do |query, needed|
      finding = examine(server.unix_url(*query)).first["rights"]
      expect(finding["remedy"].split.include?("+select")).to be needed
    end
  end

  it "sees that there is no secret" do
    finding = examine(server.unix_url, env: { "PLOCK_SECRET" => nil }).first["secret"]
    expect(finding).to match(a_hash_including("level" => "advice", "remedy" => /PLOCK_SECRET/))
  end

  it "sees a limit of descriptors that is low" do
    output, = plock("doctor", "--json", env: { "PLOCK_URL" => server.unix_url }, rlimit_nofile: 100)
    finding = JSON.parse(output)["findings"].find { |found| found["check"] == "descriptors" }
    expect(finding).to match(a_hash_including("level" => "advice", "message" => /may open 100/))
  end

  it "exits with 69 if the store cannot be reached" do
    _, errors, status = plock("doctor", env: { "PLOCK_URL" => "redis://127.0.0.1:1" })
    expect([errors, status.exitstatus])
      .to eq ["plock: connecting to 127.0.0.1:1: Connection refused\n", 69]
    expect(
      plock(
        "doctor",
        env: {
          "PLOCK_URL" => redis_server(:password).url(password: "wrong")
        }
      ).last.exitstatus
    ).to eq 69
    server.stop_process
    expect(plock("doctor", env: { "PLOCK_URL" => server.unix_url }).last.exitstatus).to eq 69
    server.continue_process
  end

  it "prints colours at a terminal, unless the user turns them off" do
    url = server.unix_url
    coloured = type_plock("doctor", "--store", url, env: { "TERM" => "xterm" })
    coloured.finish
    expect(coloured.shown).to include("\e[32mok")
    [{ "NO_COLOR" => "1", "TERM" => "xterm" }, { "TERM" => "dumb" }].each do |env|
      plain = type_plock("doctor", "--store", url, env: env)
      plain.finish
      expect(plain.shown).to match(/^  ok       version/)
      expect(plain.shown).not_to include("\e")
    end
  end
end
