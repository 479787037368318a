# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "support/command_line"
require "tmpdir"

# While a process holds leases in a file, the file's folder may be renamed, restored or cleared. Any
# other process then finds a different file at that path, or none.
RSpec.describe "A local store whose file was replaced or damaged" do
  include Support::CommandLine

  let(:root) do
    Dir.mktmpdir("plock-local-").tap { |path| discard(-> { FileUtils.remove_entry(path) }, :call) }
  end
  let(:folder) { "#{root}/of-the-program" }
  let!(:path) { "#{folder}/locks" } # made before any fork, so that children use the same path
  let(:store) { open_store("local:#{path}") }

  fates = {
    "was removed" => ->(path) { File.unlink(path) },
    "was renamed" => ->(path) { File.rename(path, "#{path}.old") },
    "is in a folder that was renamed" => ->(path) do
      File.rename(File.dirname(path), "#{File.dirname(path)}.old")
    end,
    "was rotated away by hard links" =>
      ->(path) do
        system("cp", "-al", File.dirname(path), "#{File.dirname(path)}.0") &&
          FileUtils.rm_rf(File.dirname(path))
      end,
    "was replaced by a copy" => ->(path) do
      system("cp", path, "#{path}.copy") && File.rename("#{path}.copy", path)
    end,
    "was truncated" => ->(path) { File.truncate(path, 0) },
    "was written over" => ->(path) { File.write(path, "nonsense", 0) }
  }

  # Waits until the next check of the file is due. An earlier call would get the result of the
  # previous check.
  def looked_at = sleep(0.02)

  def wait_until_lost(lease) = eventually(1.0, "it still counts as held") { lease.lost? }

  def hear(told) = eventually(1.0, "nothing was told") { !told.empty? } && told.pop

  fates.each do |fate, come|
    context "because it #{fate}" do
      it "holds no lease any more, by any method" do
        lease = store.acquire("k", ttl: 3600)
        looked_at
        come.call(path)
        wait_until_lost(lease)
        expect(lease).to have_attributes(valid?: false, lost?: true)
        expect { lease.check! }.to raise_error(Plock::LeaseLost)
        expect { lease.extend(ttl: 60) }.to raise_error(Plock::LeaseLost)
        expect(lease.release).to be false
        expect(lease).to have_attributes(valid?: false)
      end

      it "tells the holder within a second" do
        told = Queue.new
        lease = store.acquire("k", ttl: 3600, renew: false, on_lost: ->(lost) { told << lost })
        looked_at
        come.call(path)
        expect(hear(told)).to be lease
        lease.release
      end

      it "tells a block that is renewed within a second" do
        told = Queue.new
        store.acquire("k", on_lost: ->(lost) { told << lost }) do
          looked_at
          come.call(path)
          expect(hear(told)).to be_a(Plock::Lease)
        end
      end

      it "ends a command that `plock run` runs, with 76" do
        job =
          start_plock(
            "run",
            "k",
            "--ttl",
            "3600",
            "--",
            "sh",
            "-c",
            "echo $$ >&3; exec sleep 60",
            env: {
              "PLOCK_URL" => "local:#{path}"
            }
          )
        pid = job.line
        looked_at
        come.call(path)
        expect(job.finish.exitstatus).to eq 76
        expect_gone(pid)
      end
    end
  end

  fates.first(5).each do |fate, come|
    it "is created again if it #{fate}, and processes exclude one another there" do
      other =
        child do |parent|
          3.times { parent.hear && parent.tell(store.try_acquire("k") { :entered }) }
        end
      ask = -> { other.tell(:try) && other.hear }
      expect(ask.call).to be :entered
      store.try_acquire("k") { nil }
      come.call(path)
      looked_at
      store.acquire("k") { expect(ask.call).to be_nil }
      expect(ask.call).to be :entered
    end
  end

  describe "while a call for several keys has some of them" do
    let(:other) { open_store("local:#{path}") }
    let(:keys) { %w[a b].sort_by { |key| store.status(key).store_key } }
    let(:holder) { store.acquire(keys.last, ttl: 3600) }

    # @return [Thread] a call that has the first key, and waits for the holder's
    def call_that_waits(ttl)
      holder
      call = background do
        other.acquire_all(keys, ttl: ttl, wait: 30) { |leases| leases.all?(&:valid?) }
      end
      eventually { store.status(keys.last).waiters.any? }
      call
    end

    def await_expiry = eventually { !store.status(keys.first).held? }

    { "" => 3600, ", even if their leases have expired" => 0.1 }.each do |what, ttl|
      it "does not end that call#{what}" do
        call = call_that_waits(ttl)
        await_expiry if ttl < 1
        looked_at
        File.unlink(path)
        wait_until_lost(holder)
        holder.release
        expect(call.value).to be(true)
      end
    end

    it "ends none of several such calls of a process" do
      *firsts, last = %w[a b c].sort_by { |key| store.status(key).store_key }
      holder = store.acquire(last, ttl: 3600)
      calls = firsts.map do |first|
        background { other.acquire_all([first, last], ttl: 3600, wait: 30) { :entered } }
      end
      eventually { store.status(last).waiters.size == 2 }
      looked_at
      File.unlink(path)
      wait_until_lost(holder)
      holder.release
      expect(calls.map(&:value)).to eq(%i[entered entered])
    end

    it "goes over to the new file, although leases expired in the call" do
      call = call_that_waits(0.1)
      await_expiry
      GC.disable # a lease that is collected is released
      holder.release
      expect(call.value).to be(true)
      File.unlink(path)
      looked_at
      expect(other.acquire("c", wait: 2, &:valid?)).to be(true)
    ensure
      GC.enable
    end
  end
end
