# frozen_string_literal: true

require "spec_helper"
require "json"
require "support/command_line"

RSpec.describe "plock wait", needs: "redis-server" do
  include Support::CommandLine

  let(:key) { lock_name }
  let(:store) { open_store }

  it "exits with 0 at once if the key is free" do
    output, errors, status = plock("wait", key)
    expect([output, errors, status.exitstatus]).to eq ["", "", 0]
    expect(store.status(key)).not_to be_held
  end

  it "waits in the queue until the key is free, and leaves it free" do
    holder = discard(store.acquire(key, ttl: 60), :release)
    waiting = start_plock("wait", key)
    eventually { store.status(key).waiters.map(&:label) == ["plock wait"] }
    holder.release
    expect(waiting.finish.exitstatus).to eq 0
    expect(waiting.said).to eq ["", ""]
    expect(store.status(key)).not_to be_held
  end

  it "exits with 75 after --wait, and names the holder" do
    store.acquire(key, ttl: 60, label: "import") do
      output, errors, status = plock("wait", "--wait", "0.2", key)
      expect([output, status.exitstatus]).to eq ["", 75]
      expect(errors).to match(
        /\Aplock: #{Regexp.escape(key.inspect)} is held since .*"import", \d waiting\n\z/
      )
    end
  end

  it "says in JSON how it is at the end" do
    expect(JSON.parse(plock("wait", "--json", key).first)).to include("key" => key, "held" => false)
    store.acquire(key, ttl: 60) do
      output, _, status = plock("wait", "--json", "--wait", "0", key)
      expect([JSON.parse(output)["held"], status.exitstatus]).to eq [true, 75]
    end
  end

  it "exits with 64 for a wait in the past, even if the key is free" do
    output, errors, status = plock("wait", "--wait=-1", key)
    expect([output, errors[/--wait must be/], status.exitstatus]).to eq ["", "--wait must be", 64]
  end

  describe "if no server answers" do
    {
      "redis" => {}, "redis+cluster" => {}, "memcached" => { databases: true }
    }.each do |scheme, tags|
      %w[wait run].each do |name|
        it "makes plock #{name} with #{scheme}:// wait for as long as --wait says", **tags do
          Support::Port.claim do |port|
            words = [name, "--wait", "2", "--store", "#{scheme}://127.0.0.1:#{port}", key]
            words.push("--", "true") if name == "run"
            began = Plock::Clock.now
            output, errors, status = plock(*words)
            expect([output, errors.lines.size, status.exitstatus]).to eq ["", 1, 69]
            expect(Plock::Clock.now - began).to be >= 2
          end
        end
      end
    end
  end
end
