# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/command_line"

RSpec.describe "plock secret", needs: "redis-server" do
  include Support::CommandLine

  let(:old) { "the old secret of all" }
  let(:new) { "the new secret of all" }
  let(:server) { redis_server }
  let(:key) { lock_name }
  let(:store) { open_store(server.unix_url, secret: old) }

  def plock_environment(env) =
    Support::CommandLine::ENVIRONMENT.merge(
      "PLOCK_URL" => server.unix_url, "PLOCK_SECRET" => new
    ).merge(env)

  def said(*arguments, env: {})
    output, errors, status = plock("secret", *arguments, env: env)
    [output, errors, status.exitstatus]
  end

  it "exits with 0 if no fingerprint is kept yet, and if the secret is the same" do
    own = /fingerprint \h{16}, from PLOCK_SECRET, in the namespace without a name of .*/
    expect(said).to match [/\Ahere:  #{own}\nthere: nothing is kept yet\n\z/, "", 0]
    store.acquire(key) { nil }
    output, errors, status = said(env: { "PLOCK_SECRET" => old })
    expect([output.scan(/fingerprint (\h{16})/).flatten.uniq.size, errors, status]).to eq [1, "", 0]
    expect(output).to match(/^there: .*, noted \d{4}-.* UTC by host \S+ pid #{Process.pid}$/)
    expect(output).not_to include old
  end

  it "exits with 1 if others use another secret, and shows both fingerprints" do
    store.acquire(key) { nil }
    output, _, status = said("--json")
    expect([JSON.parse(output), status]).to match [
      a_hash_including("same" => false, "kept" => a_hash_including("pid" => Process.pid)),
      1
    ]
    output, _, status = said(env: { "PLOCK_SECRET" => nil })
    expect([output[/^here: .*?,/], status]).to eq ["here:  no secret,", 1]
  end

  it "replaces the secret, and refuses processes with the old one from then on" do
    store.acquire(key) { nil }
    expect(said("--replace", "--yes").last).to eq 0
    expect(plock("run", key, "--", "echo", "ran").first).to eq "ran\n"
    _, errors, status = plock("run", key, "--", "echo", "ran", env: { "PLOCK_SECRET" => old })
    expect([errors[/not the one that others use/], status.exitstatus]).to eq [
      "not the one that others use",
      64
    ]
  end

  it "does not replace the secret while a lock is held, unless it is forced" do
    lease = store.acquire(key)
    expect(said("--replace", "--yes")).to match [
      "",
      /\Aplock: the namespace .* is in use \(plock:v1:\h{64} is held .*--force replaces it/,
      1
    ]
    expect(said("--replace", "--yes", "--force").last).to eq 0
    expect(lease.release).to be(true)
  end

  it "asks before" do
    store.acquire(key) { nil }
    expect(said("--replace")).to match ["", /not a terminal; pass --yes/, 64]
    ["n", ""].each do |answer|
      refused = type_plock("secret", "--replace")
      refused.await("Have all been stopped? [y/N] ")
      refused.type("#{answer}\n")
      expect(refused.finish.exitstatus).to eq 1
    end
    agreed = type_plock("secret", "--replace")
    agreed.await("[y/N] ")
    agreed.type("y\n")
    expect(agreed.finish.exitstatus).to eq 0
    expect(said.last).to eq 0
  end

  {
    %w[k] => /no key is needed/, %w[--yes] => /--yes is of no use without --replace/,
    %w[--force] => /--force is of no use/
  }.each do |arguments, message|
    it "exits with 64 for #{arguments.join(" ")}" do
      expect(said(*arguments)).to match ["", message, 64]
    end
  end
end
