# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/command_line"

RSpec.describe "plock list", needs: "redis-server" do
  include Support::CommandLine

  let(:server) { redis_server }
  let(:store) { open_store(server.unix_url) }
  let(:env) { { "PLOCK_URL" => server.unix_url } }

  def list(*arguments) = plock("list", *arguments, env: env)

  def hold(key, label = nil, from: store) =
    discard(from.acquire(key, ttl: 60, label: label), :release)

  def listed(*arguments) =
    JSON.parse(list("--json", *arguments).first).map { |lock| lock["store_key"] }

  it "is silent if no lock is held" do
    output, errors, status = list
    expect([output, errors, status.exitstatus]).to eq ["", "", 0]
    expect(list("--json").first).to eq "[]\n"
  end

  it "shows one line for each key that is held" do
    leases = [hold("a", "nightly import"), hold("b")]
    output, errors, status = list
    expect([errors, status.exitstatus]).to eq ["", 0]
    head, *rows = output.lines
    expect(head.split(/ {2,}/)).to start_with(
      "STORE KEY", "KIND", "HOLDERS", "LABEL", "HOST", "PID"
    )
    expect(rows.sort).to match(leases.sort_by(&:store_key).map do |lease|
      key = lease.store_key
      label = lease.label ? '"nightly import"' : "-"
      /\A#{key}  lock  1        #{label} .*  #{Process.pid}  .* UTC  \d+\.\d s  0\n/
    end)
  end

  it "shows the same as status in JSON" do
    lease = hold("a", "nightly import")
    expect(JSON.parse(list("--json").first)).to match [
      a_hash_including(
        "key" => nil, "store_key" => lease.store_key, "held" => true, "fence" => lease.fence,
        "owner" => a_hash_including("label" => "nightly import")
      )
    ]
  end

  it "finds by label, host, store key, and by the name of a key" do
    a, b = hold("a", "nightly import").store_key, hold("b", "export").store_key
    expect(listed).to contain_exactly(a, b)
    expect(listed("nightly*")).to eq [a]
    expect(listed("*port")).to contain_exactly(a, b)
    expect(listed("e?p[op]rt")).to eq [b]
    expect(listed("import")).to be_empty # a pattern must match the whole name
    expect(listed(Socket.gethostname)).to contain_exactly(a, b)
    expect(listed(a)).to eq [a]
    expect(listed("#{b[0, 20]}*")).to eq [b]
    expect(listed("b")).to eq [b]
    expect(listed("c")).to be_empty
  end

  it "finds all kinds of locks, and all of their holders" do
    semaphore = store.semaphore("b", permits: 2)
    %w[import export].each { |label| discard(semaphore.acquire(ttl: 60, label: label), :release) }
    name = semaphore.status.store_key
    expect(listed("export")).to eq [name]
    expect(listed("b")).to eq [name]
    expect(list.first).to match(/^#{name}  semaphore  2        "import" /)
  end

  it "knows its own namespace only" do
    other = hold("a", from: open_store(server.unix_url, namespace: "billing"))
    lease = hold("a")
    expect(listed).to eq [lease.store_key]
    expect(listed("--namespace", "billing")).to eq [other.store_key]
  end

  describe "with keys of other programs under its names" do
    let(:foreign) { Array.new(2) { |n| store.config.store_key(n.to_s, kinds[n]) } }
    let(:kinds) { [Plock::Locking::Kind::LOCK, Plock::Locking::Kind::SEMAPHORE] }

    before do
      server.call("HSET", foreign.first, "field", "1")
      server.call("SET", foreign.last, "of another program")
    end

    it "says which they are, and lists the others" do
      lease = hold("a", "nightly import")
      [[], ["--json"]].each do |options|
        output, errors, status = list(*options)
        expect([output.scan(/plock:v1:\S{64}/), status.exitstatus]).to eq [[lease.store_key], 0]
        expect(errors.lines.sort).to match(foreign.sort.map { |name|
          /\Aplock: #{Regexp.escape(name)} cannot be read, so it is left out: .*WRONGTYPE/
        })
      end
    end

    it "says so in the table of plock top, too" do
      lease = hold("a")
      output, errors, status = plock("top", env: env)
      expect([output, status.exitstatus]).to match [/ #{lease.store_key}$/, 0]
      expect(errors.lines.map { |line| line[/plock:v1:\h{64}\S*(?=:)/] }).to match_array foreign
      expect(errors.lines).to all(match(/\Aplock: this key cannot be read: .*WRONGTYPE/))
    end
  end

  it "ends in its time, and says that the list is not complete" do
    Array.new(3) { |number| hold("k#{number}") }
    [[], ["--json"]].each do |options|
      output, errors, status = list("--within", "0", *options)
      expect([output.scan(/plock:v1:\h{64}/).size, status.exitstatus]).to eq [1, 69]
      expect(errors).to eq "plock: the list is not complete: there are more keys than could be " \
                           "listed in 0.0 s; a longer --within lists more\n"
    end
    expect(list("--within", "30").first.lines.size).to eq 4
    expect(list("--within", "soon").last.exitstatus).to eq 64
  end

  it "ends quietly if the reader of its output has closed it" do
    # a long timeout, because a busy machine may answer slowly
    patient = { "PLOCK_URL" => server.unix_url("command_timeout=10") }
    600.times { |i| server.call("SET", "plock:v1:#{Plock.digest(i.to_s)}", "token", "PX", 60_000) }
    [[], ["--json"]].each do |options|
      running = start_plock("list", *options, env: patient)
      expect(running.line(running.out)).not_to be_nil
      running.out.close
      expect(running.finish.termsig).to eq Signal.list["PIPE"]
      expect(Timeout.timeout(5) { running.err.read }).to eq ""
    end
  end
end
